/** Code whose components need the whole look of the library: the first look has only a part of it. */
export function styled<T>(load: () => Promise<T>): () => Promise<T> {
  return async () => {
    const [found] = await Promise.all([load(), import("./library")]);
    return found;
  };
}
