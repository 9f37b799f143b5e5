import type { Library } from "./calls";
import { type Conflict, changes, isMap, leaves, type Path, pathName, put, read, type Spec, same, write } from "./spec";

/** One field of a draft that is not saved: what it was when the page was opened, and what was typed. */
export interface KeptChange {
  path: string[];
  before?: unknown;
  after?: unknown;
  secret?: true; // neither value is kept
}

const REFERENCE = /^\{\{secrets\/[^}]+\}\}$/;
const SECRET = /secret|passw|token|credential|private|api.?key|access.?key|account.?key|sas|auth/i;

/** Whether a value must not outlive the page: anything that may be a secret is typed again. References to secrets are none. */
export function isSecret(path: Path, value: unknown): boolean {
  if (path[0] === "docker_image" && path[1] === "basic_auth") return true;
  if (!isMap(String(path[0])) || path[0] === "custom_tags" || value === undefined) return false;
  return path[0] === "spark_env_vars"
    ? !REFERENCE.test(String(value))
    : SECRET.test(String(path[1])) && !REFERENCE.test(String(value));
}

/** What of a draft is kept over a reload. */
export function keptOf(base: Spec, draft: Spec): KeptChange[] {
  return changes(base, draft).map(({ path, before, after }) =>
    isSecret(path, after) || isSecret(path, before) ? { path, secret: true } : { path, before, after },
  );
}

export interface Restored {
  draft: Spec;
  conflicts: Conflict[]; // with what others have saved since
  lost: string[]; // the names of fields whose values were not kept
}

/** The draft again, on what is saved by now. */
export function restored(saved: Spec, kept: KeptChange[]): Restored {
  const now = leaves(saved);
  let draft = saved;
  const conflicts: Conflict[] = [];
  const lost: string[] = [];
  for (const { path, before, after, secret } of kept) {
    const theirs = now.get(JSON.stringify(path))?.value;
    if (secret) {
      lost.push(pathName(path));
      continue;
    }
    draft = put(draft, path, after);
    if (!same(theirs, before) && !same(theirs, after)) conflicts.push({ path, mine: after, theirs });
  }
  return { draft, conflicts, lost };
}

const CREDENTIALS = /^([a-z][a-z0-9+.-]*:\/\/)[^/@\s]+@/i;

/** Libraries without the passwords that addresses of indexes may hold. */
export function withoutCredentials(libraries: Library[]): Library[] {
  return libraries.map((each) =>
    (["pypi", "maven", "cran"] as const).reduce((library, kind) => {
      const repo = read(library, [kind, "repo"]);
      return typeof repo === "string" ? write(library, [kind, "repo"], repo.replace(CREDENTIALS, "$1")) : library;
    }, each),
  );
}
