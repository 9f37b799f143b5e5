import { api, body, type Cluster } from "../api/client";
import { refreshPools } from "../api/offers";
import { useDeletion } from "../compute/deletion";

export const usesPool = (id: string) => (cluster: Cluster) =>
  cluster.instance_pool_id === id || cluster.driver_instance_pool_id === id;

const IDLE = "Its idle instances end, and nothing can attach to it any more.";

export const useDeletePool = () =>
  useDeletion({
    noun: "pool",
    uses: usesPool,
    consequence: (using) =>
      using === ""
        ? `${IDLE} No cluster that you may see uses it.`
        : `${IDLE} Used by ${using}: what runs goes on and cannot grow; what is terminated cannot start until it is edited.`,
    call: (id) => body(api.POST("/api/2.0/instance-pools/delete", { body: { instance_pool_id: id } })),
    refresh: (queries) => refreshPools(queries, []),
  });
