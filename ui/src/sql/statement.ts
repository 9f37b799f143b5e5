import { begin, end, execute, type Outcome, outcome, type Progress } from "../code/commands";

/** Runs one SQL statement on a cluster, in a session of its own, which ends with it: so does the statement when `stop` is aborted.
 * Undefined: it was stopped. */
export async function answerOf(
  clusterId: string,
  sql: string,
  stop: AbortSignal,
  seen: (progress: Progress | undefined) => void,
): Promise<Outcome | undefined> {
  const contextId = await begin(clusterId, "sql");
  try {
    if (stop.aborted) return undefined;
    const commandId = await execute(clusterId, contextId, "sql", sql);
    const wanted = () => !stop.aborted;
    return await outcome(clusterId, contextId, commandId, (_, progress) => seen(progress), wanted);
  } finally {
    end(clusterId, contextId).catch(() => {}); // it has ended with its cluster, or will
  }
}
