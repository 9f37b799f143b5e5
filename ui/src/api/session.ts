import { Value } from "../lib/value";

export interface Session {
  user_name: string;
  csrf_token: string;
}

async function ask(): Promise<Session | null> {
  const answer = await fetch("/login/session", { headers: { Accept: "application/json" } });
  return answer.ok ? ((await answer.json()) as Session) : null;
}

/** The browser's session. When it ends, the page stays as it is: one logs in again in another tab. */
class SessionStore {
  readonly expired = new Value(false);
  #known: Promise<Session | null> | null = null;

  /** Whether there is one when the page is opened. While the server does not answer, that is not known: the page says so. */
  async loggedIn(): Promise<boolean> {
    try {
      const found = await ask();
      if (found !== null) this.#known = Promise.resolve(found);
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
    if (found === null) {
      this.#known = null;
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
    if (found === null) return false;
    this.#known = Promise.resolve(found);
    this.expired.set(false);
    return true;
  }
}

export const session = new SessionStore();
