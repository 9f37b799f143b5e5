/** What of a statement decides which names can be completed. Pure. */

const PART = "(?:[\\w$]+|`[^`]*`)";
const PATH = `${PART}(?:\\s*\\.\\s*${PART}){0,2}`;
const BEFORE = new RegExp(`((?:${PART}\\.){0,3})([\\w$]*|\`[^\`]*)$`);
const SOURCES = new RegExp(
  `\\b(?:from|join|into|table|update|using)\\s+(${PATH})(?:\\s+(?:as\\s+)?([a-z_][\\w$]*))?`,
  "gi",
);
const NO_ALIAS =
  /^(on|where|join|inner|left|right|full|cross|group|order|limit|using|set|values|select|union|having|lateral|as|when|partition)$/i;

const bare = (part: string) => part.replaceAll("`", "").trim();
const partsOf = (path: string) => (path.match(new RegExp(PART, "g")) ?? []).map(bare);

/** The names before the last dot, what is typed after it, and where that begins. */
export function typedName(before: string): { path: string[]; from: number } {
  const found = BEFORE.exec(before);
  if (found === null) return { path: [], from: before.length };
  return { path: partsOf(found[1] ?? ""), from: before.length - (found[2] ?? "").length };
}

/** A table that a statement names; `alias` "": none. */
export interface Source {
  path: string[];
  alias: string;
}

export function sourcesOf(sql: string): Source[] {
  return [...sql.matchAll(SOURCES)].map(([, path, alias]) => ({
    path: partsOf(path ?? ""),
    alias: alias === undefined || NO_ALIAS.test(alias) ? "" : alias,
  }));
}

/** The table whose columns are wanted after `name.`; undefined: it is none of the statement's. */
export function sourceNamed(sources: Source[], name: string): Source | undefined {
  const small = name.toLowerCase();
  return sources.find((each) => each.alias.toLowerCase() === small || each.path.at(-1)?.toLowerCase() === small);
}

/** A name as SQL needs it. */
export const quoted = (name: string) => (/^[a-z_]\w*$/i.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
