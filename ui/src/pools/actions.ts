import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, type Cluster, words } from "../api/client";
import { markGone } from "../api/gone";
import { type Pool, refreshPools } from "../api/offers";
import { clustersQuery } from "../api/queries";
import { confirm } from "../app/confirm";
import { toast } from "../app/toasts";
import { nameOf } from "../compute/facts";

const NAMED = 5;

export const usesPool = (id: string) => (cluster: Cluster) =>
  cluster.instance_pool_id === id || cluster.driver_instance_pool_id === id;

/** "a, b and 3 more". */
export function listed(names: string[]): string {
  const more = names.length - NAMED;
  return more > 0 ? `${names.slice(0, NAMED).join(", ")} and ${more} more` : names.join(", ");
}

/** What deleting a pool does to what uses it. */
function consequence(clusters: Cluster[]): string {
  const idle = "Its idle instances end, and nothing can attach to it any more.";
  if (clusters.length === 0) return `${idle} No cluster that you may see uses it.`;
  return `${idle} Used by ${listed(clusters.map(nameOf))}: what runs goes on and cannot grow; what is terminated cannot start until it is edited.`;
}

/** Deletes a pool, after saying what uses it. Resolves to whether it is gone. */
export function useDeletePool() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState("");
  const remove = async (pool: Pool): Promise<boolean> => {
    const id = pool.instance_pool_id;
    const clusters = (await queries.ensureQueryData(clustersQuery).catch(() => [])).filter(usesPool(id));
    const title = `Delete ${pool.instance_pool_name}?`;
    if (!(await confirm({ title, consequence: consequence(clusters), action: "Delete the pool" }))) return false;
    setBusy(id);
    try {
      await body(api.POST("/api/2.0/instance-pools/delete", { body: { instance_pool_id: id } }));
      markGone(id, "The pool was deleted.");
      toast(`${pool.instance_pool_name} is deleted.`);
      return true;
    } catch (error) {
      toast(`${pool.instance_pool_name}: ${words(error)}`, { failed: true });
      return false;
    } finally {
      setBusy("");
      void refreshPools(queries, []);
    }
  };
  return { busy, remove };
}
