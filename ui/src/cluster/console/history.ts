import type { Language } from "../../code/commands";

/** A command that was run, in the history of a cluster. */
export interface Ran {
  language: Language;
  code: string;
}

const MOST = 200; // commands
const MOST_CODE = 20_000; // characters of one

const same = (one: Ran | undefined, other: Ran) => one?.code === other.code && one.language === other.language;

/** The history with one more command, the newest last. What is run again is there once. */
export function remembered(history: Ran[], ran: Ran): Ran[] {
  if (ran.code.length > MOST_CODE) return history;
  return [...history.filter((each) => !same(each, ran)), ran].slice(-MOST);
}

/** The place of the next older or newer command, where a cell shows that at `at` (`history.length`: none of them); undefined: there
 * is none. */
export function recalled(history: Ran[], at: number, older: boolean): number | undefined {
  const to = at + (older ? -1 : 1);
  return to < 0 || to > history.length ? undefined : to;
}

const keyOf = (user: string, cluster: string) => `brickyard.history.${user}.${cluster}`;

/** The history that this browser keeps of what a user runs on a cluster. */
export function storedHistory(user: string, cluster: string): Ran[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(keyOf(user, cluster)) ?? "[]");
    if (!Array.isArray(found)) return [];
    return (found as Ran[]).filter((each) => typeof each?.code === "string" && typeof each.language === "string");
  } catch {
    return [];
  }
}

export function storeHistory(user: string, cluster: string, history: Ran[]) {
  try {
    localStorage.setItem(keyOf(user, cluster), JSON.stringify(history));
  } catch {
    // A browser without storage, or with a full one, forgets it with the page.
  }
}
