import { Value } from "../lib/value";

/** Whether the server has another version of this page by now: code that has not been loaded yet is not there any more. */
export const outdated = new Value(false);

/** Code whose components need the whole look of the library: the first look has only a part of it. */
export function styled<T>(load: () => Promise<T>): () => Promise<T> {
  return async () => {
    try {
      const [found] = await Promise.all([load(), import("./library")]);
      return found;
    } catch (error) {
      void compare();
      throw error;
    }
  };
}

/** Compares this page with the server's: a new one begins with a file of another name. */
async function compare() {
  const first = document.querySelector<HTMLScriptElement>('head script[type="module"][src]')?.getAttribute("src");
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", headers: { accept: "text/html" } });
    if (answer.ok && first && !(await answer.text()).includes(first)) outdated.set(true);
  } catch {
    // The server is away, which is shown already.
  }
}
