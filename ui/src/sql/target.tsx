import { Button, Group, NativeSelect, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Cluster } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { clustersQuery } from "../api/queries";
import { ACTIONS, useActions } from "../clusters/actions";
import { isJob, nameOf } from "../clusters/facts";
import { Icon } from "../kit/icons";
import { useKept } from "../lib/kept";
import { useValue } from "../lib/value";

export interface Target {
  cluster: Cluster | undefined; // where statements run; undefined: there is none to choose
  clusters: Cluster[]; // that can be chosen
  choose: (id: string) => void;
}

export const takesStatements = ({ state }: Cluster) => state === "RUNNING" || state === "RESIZING";

/** The cluster on which statements run: the one chosen last, or else one that runs. */
export function useTarget(): Target {
  const live = useValue(connection) === "live";
  const { data = [] } = useQuery({ ...clustersQuery, refetchInterval: live ? false : POLL_MS });
  const [chosen, choose] = useKept("sql.cluster", "");
  const clusters = data
    .filter((each) => !isJob(each))
    .sort((a, b) => Number(takesStatements(b)) - Number(takesStatements(a)) || nameOf(a).localeCompare(nameOf(b)));
  const cluster = clusters.find((each) => each.cluster_id === chosen) ?? clusters[0];
  return { cluster, clusters, choose };
}

/** Chooses the cluster, and starts it. */
export function TargetPicker({ target: { cluster, clusters, choose } }: { target: Target }) {
  const { busy, act } = useActions();
  if (cluster === undefined)
    return (
      <Text size="sm">
        No cluster to run on. <Link to="/compute/create">Create compute</Link>
      </Text>
    );
  const starts = ACTIONS.start.fits(cluster, false);
  return (
    <Group gap={6} align="center">
      <NativeSelect
        size="xs"
        aria-label="Cluster"
        data={clusters.map((each) => ({
          value: each.cluster_id,
          label: takesStatements(each) ? nameOf(each) : `${nameOf(each)} (${each.state ?? "away"})`,
        }))}
        value={cluster.cluster_id}
        onChange={(event) => choose(event.currentTarget.value)}
      />
      {starts && (
        <Button
          variant="default"
          disabled={busy.has(cluster.cluster_id)}
          leftSection={<Icon name="play" size={14} filled />}
          onClick={() => void act("start", [cluster])}
        >
          Start the cluster
        </Button>
      )}
    </Group>
  );
}
