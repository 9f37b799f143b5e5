import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { Run } from "../runs/words";
import { isOver } from "../runs/words";
import type { Job, Settings } from "./words";

const PAGE = 100; // of jobs: the most that the API gives
const RUNS = 25; // likewise of runs
const POLL_MS = 3000; // jobs and runs are not in the stream of changes
const SLOW_MS = 15_000;
const FEW = 2; // pages; more are not read again and again

export const jobsQuery = infiniteQueryOptions({
  queryKey: ["jobs"],
  initialPageParam: "",
  queryFn: async ({ pageParam }) => {
    const query = { limit: PAGE, ...(pageParam && { page_token: pageParam }) };
    return await body(api.GET("/api/2.2/jobs/list", { params: { query } }));
  },
  getNextPageParam: (last) => last.next_page_token || undefined,
  refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) <= FEW ? SLOW_MS : false),
});

export const jobQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: async () => {
      const job = (await body(api.GET("/api/2.2/jobs/get", { params: { query: { job_id: id } } }))) as Job;
      for (let page_token = job.next_page_token; page_token; ) {
        const more = (await body(
          api.GET("/api/2.2/jobs/get", { params: { query: { job_id: id, page_token } } }),
        )) as Job;
        for (const name of ["tasks", "job_clusters", "parameters"] as const) {
          const both = [...(job.settings[name] ?? []), ...(more.settings[name] ?? [])];
          if (both.length) Object.assign(job.settings, { [name]: both });
        }
        page_token = more.next_page_token;
      }
      return job;
    },
    refetchInterval: SLOW_MS,
  });

const activeOf = (runs: Run[] | undefined) => runs?.some((run) => !isOver(run.state)) ?? false;

/** The last runs of a job, without their tasks. */
export const lastRunsQuery = (job_id: number, limit: number) =>
  queryOptions({
    queryKey: ["job", job_id, "last"],
    queryFn: async () => {
      const query = { job_id, limit };
      return ((await body(api.GET("/api/2.2/jobs/runs/list", { params: { query } }))).runs ?? []) as Run[];
    },
    refetchInterval: (query) => (activeOf(query.state.data) ? POLL_MS : SLOW_MS),
  });

/** All runs of a job with their tasks, the newest first. */
export const jobRunsQuery = (job_id: number) =>
  infiniteQueryOptions({
    queryKey: ["job", job_id, "runs"],
    initialPageParam: "",
    queryFn: async ({ pageParam }) => {
      const query = { job_id, limit: RUNS, expand_tasks: true, ...(pageParam && { page_token: pageParam }) };
      return await body(api.GET("/api/2.2/jobs/runs/list", { params: { query } }));
    },
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: (query) =>
      activeOf(query.state.data?.pages.flatMap((page) => (page.runs ?? []) as Run[])) ? POLL_MS : SLOW_MS,
  });

export async function runNow(job_id: number, job_parameters?: Record<string, string>): Promise<number> {
  const request = { job_id, ...(job_parameters && { job_parameters }) };
  return (await body(api.POST("/api/2.2/jobs/run-now", { body: request }))).run_id;
}

export async function createJob(settings: Settings): Promise<number> {
  return (await body(api.POST("/api/2.2/jobs/create", { body: settings }))).job_id;
}

/** Changes the fields that are given, after those in `fields_to_remove` are taken away. */
export async function updateJob(job_id: number, new_settings: Settings, fields_to_remove: string[] = []) {
  await body(api.POST("/api/2.2/jobs/update", { body: { job_id, new_settings, fields_to_remove } }));
}

export async function deleteJob(job_id: number) {
  await body(api.POST("/api/2.2/jobs/delete", { body: { job_id } }));
}

export async function cancelAll(job_id: number) {
  await body(api.POST("/api/2.2/jobs/runs/cancel-all", { body: { job_id } }));
}
