import { Permissions } from "../access/permissions";
import { securable } from "../clusters/rights";
import type { TabProps } from "./tab";

export default function ClusterPermissions({ cluster, may }: TabProps) {
  return <Permissions on={securable(cluster)} owner={cluster.creator_user_name} manage={may("CAN_MANAGE")} />;
}
