import { api, body, type Cluster } from "../api/client";
import { refreshPools } from "../api/offers";
import { useDeletion } from "../clusters/deletion";

export const usesPool = (id: string) => (cluster: Cluster) =>
  cluster.instance_pool_id === id || cluster.driver_instance_pool_id === id;

const IDLE = "Its idle instances are terminated, and clusters can no longer attach to it.";

export const useDeletePool = () =>
  useDeletion({
    noun: "pool",
    uses: usesPool,
    consequence: (using) =>
      using === ""
        ? `${IDLE} No cluster that you can see uses it.`
        : `${IDLE} Used by ${using}. Running clusters keep running but cannot grow. Terminated clusters cannot start until they are edited.`,
    call: (id) => body(api.POST("/api/2.0/instance-pools/delete", { body: { instance_pool_id: id } })),
    refresh: (queries) => refreshPools(queries, []),
  });
