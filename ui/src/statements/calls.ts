import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { components } from "../api/schema";

export type Query = components["schemas"]["QueryInfo"];

/** Which statements of the history are wanted; what is absent is any. Times are epoch milliseconds. */
export interface Wanted {
  user?: string; // an id
  compute?: string; // the id of a warehouse or cluster
  states?: string[];
  from?: number;
  until?: number;
}

const PAGE = 50;
const POLL_MS = 2000; // statements are not in the stream of changes
const MOST_RUNNING = 1000; // the largest page

const list = ({ user, compute, states, from, until }: Wanted, max_results: number, page_token = "") => {
  const query = {
    max_results,
    ...(page_token && { page_token }),
    ...(user !== undefined && { "filter_by.user_ids": [user as unknown as number] }), // with all of its digits
    ...(compute && { "filter_by.warehouse_ids": [compute] }),
    ...(states && { "filter_by.statuses": states }),
    ...(from !== undefined && { "filter_by.query_start_time_range.start_time_ms": from }),
    ...(until !== undefined && { "filter_by.query_start_time_range.end_time_ms": until }),
  };
  return body(api.GET("/api/2.0/sql/history/queries", { params: { query } }));
};

/** The history, newest first. The first page is read again while one looks: the others have ended, or will be read with it. */
export const historyQuery = (wanted: Wanted) =>
  infiniteQueryOptions({
    queryKey: ["statements", wanted],
    initialPageParam: "",
    queryFn: ({ pageParam }) => list(wanted, PAGE, pageParam),
    getNextPageParam: (page) => (page.has_next_page ? page.next_page_token : undefined),
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) > 1 ? false : POLL_MS),
  });

/** One statement of the history; null if it is not there. It is followed until it has ended. */
export const statementQuery = (id: string, known: Query | undefined) =>
  queryOptions({
    queryKey: ["statements", "one", id],
    initialData: known,
    initialDataUpdatedAt: 0,
    queryFn: async () => {
      const query = { "filter_by.statement_ids": [id] };
      return (await body(api.GET("/api/2.0/sql/history/queries", { params: { query } }))).res[0] ?? null;
    },
    refetchInterval: (query) => (query.state.data?.is_final === false ? POLL_MS : false),
  });

/** What runs now, by the id of its warehouse or cluster. */
export const runningQuery = queryOptions({
  queryKey: ["statements-running"],
  refetchInterval: POLL_MS,
  queryFn: async () => {
    const found = new Map<string, number>();
    for (const each of (await list({ states: ["RUNNING"] }, MOST_RUNNING)).res)
      found.set(each.cluster_id, (found.get(each.cluster_id) ?? 0) + 1);
    return found;
  },
});

export async function cancelStatement(statement_id: string) {
  const params = { path: { statement_id } };
  await body(api.POST("/api/2.0/sql/statements/{statement_id}/cancel", { params, body: {} }));
}
