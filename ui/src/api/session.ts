import { Value } from "../lib/value";
import { early } from "./early";

export interface Session {
  user_name: string;
  csrf_token: string;
  /** Whether results of commands may be saved as a file: the workspace's enableResultsDownloading. A page in front of another
   * workspace is not told, and offers it. */
  results_download?: boolean;
  workspace_name?: string; // a setting
  external_url?: string; // likewise: the origin by which clients reach the workspace
  /** Of `brickyard ui --workspace`: the workspace behind this page, and what of our own API it lacks. */
  workspace?: string;
  lacks?: string[];
}

/** The workspace's URL where it is not this page's own server, else "". */
let workspace = "";
let named = "";
let lacks: ReadonlySet<string> = new Set();

const ASKS = "/login/session";

async function ask(): Promise<Session | null> {
  const answer = await (early(ASKS) ?? fetch(ASKS, { headers: { Accept: "application/json" } }));
  if (!answer.ok) return null;
  const found = (await answer.json()) as Session;
  workspace = found.workspace ?? "";
  named = found.workspace_name ?? "";
  lacks = new Set(found.lacks);
  return found;
}

/** What people call the workspace. */
export const workspaceName = () => named || "Brickyard";
export const remote = () => workspace;

/** Whether the workspace has what is not in the Databricks API: a path of our own, or `validate_only`. What it has not is hidden,
 * and not asked for. Known as soon as the page is drawn. */
export const offered = (what: string) => !lacks.has(what);

/** The browser's session. When it ends, the page stays as it is: one logs in again in another tab. What is open here is its
 * user's: nothing of it is to be saved as somebody else's. */
export class SessionStore {
  readonly expired = new Value(false);
  /** Who has logged in instead of the page's user; "": nobody. */
  readonly other = new Value("");
  #known: Promise<Session | null> | null = null;
  #user = "";

  /** Whether there is one when the page is opened. While the server does not answer, that is not known: the page says so. */
  async loggedIn(): Promise<boolean> {
    try {
      const found = await ask();
      if (found !== null && this.#isOurs(found)) this.#known = Promise.resolve(found);
      return found !== null;
    } catch {
      return true;
    }
  }

  async get(): Promise<Session> {
    this.#known ??= ask();
    let found: Session | null;
    try {
      found = await this.#known;
    } catch (error) {
      this.#known = null;
      throw error;
    }
    if (found === null || !this.#isOurs(found)) {
      this.expire();
      return { user_name: "", csrf_token: "" };
    }
    return found;
  }

  expire() {
    this.#known = null;
    this.expired.set(true);
  }

  /** Looks whether the user has logged in again. */
  async renew(): Promise<boolean> {
    const found = await ask().catch(() => null);
    if (found === null || !this.#isOurs(found)) return false;
    this.#known = Promise.resolve(found);
    this.expired.set(false);
    return true;
  }

  #isOurs(found: Session): boolean {
    this.#user ||= found.user_name;
    this.other.set(found.user_name === this.#user ? "" : found.user_name);
    return found.user_name === this.#user;
  }
}

export const session = new SessionStore();
