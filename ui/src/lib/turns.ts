/** Does the work for each item, for at most `atOnce` of them at a time. Once `stop` is aborted, no other item begins. Resolves to
 * the items that were begun; work that rejects is the caller's to handle. */
export async function inTurns<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
  stop?: AbortSignal,
): Promise<number> {
  let next = 0;
  const worker = async () => {
    while (next < items.length && !stop?.aborted) {
      const at = next++;
      await work(items[at] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  return next;
}
