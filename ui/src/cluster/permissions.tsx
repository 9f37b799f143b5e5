import { Permissions } from "../access/permissions";
import type { TabProps } from "./tab";

export default function ClusterPermissions({ cluster, may }: TabProps) {
  const on = { of: "clusters", id: cluster.cluster_id } as const;
  return <Permissions on={on} owner={cluster.creator_user_name} manage={may("CAN_MANAGE")} />;
}
