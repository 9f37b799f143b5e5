import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { clusterPath } from "../connect/address";
import { Connection, workspaceIdQuery } from "../connect/connection";
import { Reading } from "../kit/reading";
import type { TabProps } from "./tab";

export default function Jdbc({ cluster }: TabProps) {
  const workspace = useQuery(workspaceIdQuery);
  if (workspace.data === undefined) return <Reading query={workspace} what="Reading the workspace's id" rows={3} />;
  return (
    <>
      <Text size="sm" c="dimmed">
        SQL clients connect with a token of a user who has CAN_ATTACH_TO on this cluster. Settings has your tokens.
      </Text>
      <Connection path={clusterPath(workspace.data, cluster.cluster_id)} />
    </>
  );
}
