import { api, body, LostConnection } from "../api/client";
import type { components } from "../api/schema";
import { passing } from "../code/commands";
import type { Row } from "../code/result/rows";
import { cancelStatement } from "./calls";

export type Parameter = components["schemas"]["Parameter"];

export interface Asked {
  compute: string; // the id of a warehouse or cluster
  sql: string;
  parameters?: Parameter[];
  limit: number; // rows
}

/** The result of a statement. `truncated`: it has as many rows as were asked for, and may have more. */
export interface Answer {
  columns: { name: string; type: string }[];
  rows: Row[];
  truncated: boolean;
}

/** Spark has refused or failed the statement. */
export class StatementFailed extends Error {}

const FIRST_MS = 150;
const SLOWEST_MS = 1500;

/** Runs a statement once, and waits for its end. Undefined: it was canceled, by `stop` or elsewhere. A server that is away for a moment
 * does not end the wait. Throws StatementFailed, ApiError and LostConnection. */
export async function answerOf(
  { compute, sql, parameters = [], limit }: Asked,
  stop: AbortSignal,
  seen: (state: "PENDING" | "RUNNING") => void = () => {},
): Promise<Answer | undefined> {
  if (stop.aborted) return undefined;
  const request = { statement: sql, warehouse_id: compute, parameters, row_limit: limit, wait_timeout: "0s" };
  const { statement_id } = await body(api.POST("/api/2.0/sql/statements", { body: request })).catch(unsure);
  const params = { path: { statement_id } };
  let canceled = false;
  for (let wait = FIRST_MS; ; wait = Math.min(wait * 1.5, SLOWEST_MS)) {
    try {
      if (stop.aborted && !canceled) {
        await cancelStatement(statement_id);
        canceled = true; // unless it had ended: its state says so
      }
      const found = await body(api.GET("/api/2.0/sql/statements/{statement_id}", { params }));
      const { state, error } = found.status;
      if (state === "SUCCEEDED") return await whole(found);
      if (state === "FAILED") throw new StatementFailed(error?.message ?? "The statement failed.");
      if (state === "CANCELED" || state === "CLOSED") return undefined;
      seen(state);
    } catch (error) {
      if (error instanceof StatementFailed || !passing(error)) throw error;
    }
    await pause(wait, canceled ? undefined : stop);
  }
}

/** It is not sent again: it may have arrived. */
function unsure(error: unknown): never {
  if (!(error instanceof LostConnection)) throw error;
  throw new Error("The connection broke while the statement was being sent. Your query history shows whether it ran.");
}

async function whole({ statement_id, manifest, result }: components["schemas"]["StatementAnswer"]): Promise<Answer> {
  const rows: Row[] = [...(result?.data_array ?? [])];
  for (let next = result?.next_chunk_index; next != null; ) {
    const path = { statement_id, chunk_index: String(next) };
    const chunk = await body(
      api.GET("/api/2.0/sql/statements/{statement_id}/result/chunks/{chunk_index}", { params: { path } }),
    );
    for (const row of chunk.data_array ?? []) rows.push(row);
    next = chunk.next_chunk_index;
  }
  const columns = (manifest?.schema.columns ?? []).map(({ name, type_text }) => ({ name, type: type_text }));
  return { columns, rows, truncated: manifest?.truncated ?? false };
}

/** Ends early when `stop` is aborted. */
const pause = (ms: number, stop: AbortSignal | undefined) =>
  new Promise<void>((go) => {
    const timer = setTimeout(over, ms);
    stop?.addEventListener("abort", over);
    function over() {
      clearTimeout(timer);
      stop?.removeEventListener("abort", over);
      go();
    }
  });
