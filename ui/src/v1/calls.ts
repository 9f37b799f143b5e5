import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";

const POLL_MS = 15_000;

/** The limits that stop a cluster by themselves, and whether it is stopped. */
export const limitsQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "limits"],
    queryFn: async () => {
      const { data } = await body(api.GET("/v1/clusters/{cluster_id}", { params: { path: { cluster_id: id } } }));
      return { limits: data.auto_terminate, stopped: data.status === "stopped" || data.status === "error" };
    },
    refetchInterval: POLL_MS,
  });

/** Starts a stopped cluster, and restarts one that runs, with what only a start can change. */
export async function startWith(id: string, stopped: boolean, changes: object): Promise<void> {
  const asked = { params: { path: { cluster_id: id } }, body: changes as never };
  if (stopped) await body(api.POST("/v1/clusters/{cluster_id}/start", asked));
  else await body(api.POST("/v1/clusters/{cluster_id}/restart", asked));
}
