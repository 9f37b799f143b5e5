import { type Securable, useLevel } from "../access/rights";
import type { Cluster } from "../api/client";
import { isWarehouse } from "./facts";

export const LEVELS = ["CAN_ATTACH_TO", "CAN_RESTART", "CAN_MANAGE"] as const;
const OF_WAREHOUSES = ["CAN_VIEW", "CAN_USE", "CAN_MONITOR", "CAN_MANAGE", "IS_OWNER"] as const;
const ON_WAREHOUSES = { CAN_ATTACH_TO: "CAN_USE", CAN_RESTART: "CAN_USE", CAN_MANAGE: "CAN_MANAGE" } as const;
export type Level = (typeof LEVELS)[number];
export type May = (level: Level) => boolean;

/** What has a cluster's permissions: itself, or the SQL warehouse that it is of. */
export const securable = (cluster: Cluster): Securable => ({
  of: isWarehouse(cluster) ? "warehouses" : "clusters",
  id: cluster.cluster_id,
});

/** What the user may do with a cluster, once it is known. */
export function useRights(cluster: Cluster | undefined): May {
  const of = cluster ? securable(cluster) : ({ of: "clusters", id: "" } as const);
  const may = useLevel<string>(of, of.of === "warehouses" ? OF_WAREHOUSES : LEVELS);
  return (level) => may(of.of === "warehouses" ? ON_WAREHOUSES[level] : level);
}
