import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { components } from "../api/schema";
import { exactNumbers } from "../code/result/numbers";
import { type Cells, merged, NONE, type Told } from "./cells";
import type { RunsSearch } from "./search";
import { isOver, type Run } from "./words";

const PAGE = 25; // the API gives at most 26
const POLL_MS = 3000; // runs are not in the stream of changes
const CELLS_MS = 1500;
const DAY = 86_400_000;

export const runsQuery = ({ show, range }: RunsSearch, now: number) =>
  infiniteQueryOptions({
    queryKey: ["runs", show, range, now],
    initialPageParam: "",
    queryFn: async ({ pageParam }) => {
      const query = {
        limit: PAGE,
        expand_tasks: true,
        ...(show === "active" ? { active_only: true } : show === "completed" ? { completed_only: true } : {}),
        ...(range ? { start_time_from: now - (range === "1d" ? 1 : 7) * DAY } : {}),
        ...(pageParam ? { page_token: pageParam } : {}),
      };
      return await body(api.GET("/api/2.2/jobs/runs/list", { params: { query } }));
    },
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: (query) =>
      query.state.data?.pages.some((page) => page.runs?.some((run) => !isOver(run.state))) ? POLL_MS : 5 * POLL_MS,
  });

export const runQuery = (id: number) =>
  queryOptions({
    queryKey: ["run", id],
    queryFn: async () => {
      const query = { run_id: id, include_history: true };
      const run = (await body(api.GET("/api/2.2/jobs/runs/get", { params: { query } }))) as Run;
      for (let page_token = run.next_page_token; page_token && !run.iterations; ) {
        const more = (await body(
          api.GET("/api/2.2/jobs/runs/get", { params: { query: { ...query, page_token } } }),
        )) as Run;
        run.tasks = [...(run.tasks ?? []), ...(more.tasks ?? [])];
        page_token = more.next_page_token;
      }
      return run;
    },
    refetchInterval: (query) => (query.state.data === undefined || isOver(query.state.data.state) ? false : POLL_MS),
  });

/** The iterations of an attempt at a for-each task. They are read again while it goes on. */
export const iterationsQuery = (id: number, over: boolean) =>
  infiniteQueryOptions({
    queryKey: ["run", id, "iterations", over],
    initialPageParam: "",
    queryFn: async ({ pageParam }) => {
      const query = { run_id: id, ...(pageParam && { page_token: pageParam }) };
      return (await body(api.GET("/api/2.2/jobs/runs/get", { params: { query } }))) as Run;
    },
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: over ? false : POLL_MS,
  });

/** The output of an attempt: what was printed, and the error. It is read again while the attempt goes on. */
export const outputQuery = (id: number, over: boolean) =>
  queryOptions({
    queryKey: ["run", id, "output", over],
    queryFn: () => body(api.GET("/api/2.2/jobs/runs/get-output", { params: { query: { run_id: id } } })),
    refetchInterval: over ? false : POLL_MS,
  });

/** The cells that a notebook task runs or has run: only what has changed is read again. */
export const cellsQuery = (id: number) =>
  queryOptions({
    queryKey: ["run", id, "cells"],
    queryFn: async ({ client, queryKey }) => {
      let known = client.getQueryData<Cells>(queryKey) ?? NONE;
      for (;;) {
        const query = { run_id: id, after: known.version };
        const asked = api.GET("/api/2.2/jobs/runs/cells", { params: { query }, parseAs: "text" });
        const told = exactNumbers((await body(asked)) as unknown as string) as Told;
        known = merged(known, told);
        if (!told.has_more) return known;
      }
    },
    refetchInterval: (query) => (query.state.data?.over ? false : CELLS_MS),
  });

/** The notebook with its output as a page of HTML. */
export async function exported(run_id: number): Promise<{ name: string; content: string } | undefined> {
  const found = await body(api.GET("/api/2.2/jobs/runs/export", { params: { query: { run_id } } }));
  return found.views[0];
}

export async function cancelRun(run_id: number): Promise<void> {
  await body(api.POST("/api/2.2/jobs/runs/cancel", { body: { run_id } }));
}

export async function repairRun(request: components["schemas"]["RepairRun"]): Promise<void> {
  await body(api.POST("/api/2.2/jobs/runs/repair", { body: request }));
}

export async function deleteRun(run_id: number): Promise<void> {
  await body(api.POST("/api/2.2/jobs/runs/delete", { body: { run_id } }));
}
