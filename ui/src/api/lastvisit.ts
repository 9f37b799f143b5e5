import type { QueryClient, QueryKey } from "@tanstack/react-query";

/** Answers that this browser keeps for the next visit of the same user to the same version of the page. Logging out forgets them. */
interface Kept {
  version: string;
  user: string;
  answers: [QueryKey, unknown][];
}

const PLACE = "brickyard.answers";
const VERSION = import.meta.url; // its name has a digest of the code, and of what that imports
let forgotten = false;

const written = (_: string, value: unknown) =>
  value instanceof Map ? { map: [...value] } : value instanceof Set ? { set: [...value] } : value;

const read = (_: string, value: { map?: [unknown, unknown][]; set?: unknown[] } | null) =>
  Array.isArray(value?.map) ? new Map(value.map) : Array.isArray(value?.set) ? new Set(value.set) : value;

export const textOf = (user: string, answers: Kept["answers"]) =>
  JSON.stringify({ version: VERSION, user, answers } satisfies Kept, written);

/** The kept data of each key, in their order; undefined unless all of it is there. */
export function dataIn(text: string, user: string, keys: QueryKey[]): unknown[] | undefined {
  try {
    const kept = JSON.parse(text, read) as Kept;
    const found = new Map(kept.answers.map(([key, data]) => [JSON.stringify(key), data]));
    const data = keys.map((key) => found.get(JSON.stringify(key)));
    return kept.version === VERSION && kept.user === user && !data.includes(undefined) ? data : undefined;
  } catch {
    return undefined; // nothing was kept, or by another version
  }
}

/** Puts in what was kept, as if it had just come: whoever calls this asks again. Returns whether all of it was there. */
export function recall(queries: QueryClient, user: string, keys: QueryKey[]): boolean {
  let text = "";
  try {
    text = localStorage.getItem(PLACE) ?? "";
  } catch {
    // A browser without storage asks.
  }
  const data = dataIn(text, user, keys);
  for (const [at, key] of keys.entries()) if (data !== undefined) queries.setQueryData(key, data[at]);
  return data !== undefined;
}

/** Keeps the answers that are there when the page is left. */
export function keepWhenLeft(queries: QueryClient, user: string, keys: QueryKey[]) {
  addEventListener("pagehide", () => {
    const answers = keys.map((key): [QueryKey, unknown] => [key, queries.getQueryData(key)]);
    if (forgotten || answers.some(([, data]) => data === undefined)) return;
    try {
      localStorage.setItem(PLACE, textOf(user, answers));
    } catch {
      // A browser without storage asks.
    }
  });
}

export function forget() {
  forgotten = true;
  try {
    localStorage.removeItem(PLACE);
  } catch {
    // There is none.
  }
}
