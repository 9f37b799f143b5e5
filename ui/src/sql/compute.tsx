import { Group, NativeSelect, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { connection, POLL_MS } from "../api/live";
import { clustersQuery } from "../api/queries";
import { offered } from "../api/session";
import { warehousesQuery } from "../api/warehouses";
import { isOwned, nameOf } from "../clusters/facts";
import { useValue } from "../lib/value";
import { chosenCompute } from "../statements/draftstore";

/** A SQL warehouse or an all-purpose cluster. */
export interface Compute {
  id: string;
  name: string;
  warehouse: boolean;
  state: string;
  runs: boolean;
}

export interface Computes {
  loaded: boolean;
  all: Compute[];
  chosen: Compute | undefined; // the one chosen last, or else one that runs; undefined: there is none to choose
}

/** On what statements can run. A workspace of Databricks takes them on warehouses alone. */
export function useComputes(): Computes {
  const live = useValue(connection) === "live";
  const warehouses = useQuery(warehousesQuery);
  const clusters = useQuery({ ...clustersQuery, refetchInterval: live ? false : POLL_MS });
  const last = useValue(chosenCompute);
  const onClusters = offered("/api/2.1/changes");
  const all = [
    ...(warehouses.data ?? []).map(({ id, name, state }) => ({
      ...{ id, name, state, warehouse: true },
      runs: state === "RUNNING",
    })),
    ...(onClusters ? (clusters.data ?? []) : [])
      .filter((each) => !isOwned(each))
      .map((each) => ({
        ...{ id: each.cluster_id, name: nameOf(each), warehouse: false, state: each.state ?? "" },
        runs: each.state === "RUNNING" || each.state === "RESIZING",
      })),
  ].sort((a, b) => Number(b.runs) - Number(a.runs) || Number(b.warehouse) - Number(a.warehouse) || compared(a, b));
  const loaded = !warehouses.isPending && !clusters.isPending;
  return { loaded, all, chosen: loaded ? (all.find((each) => each.id === last) ?? all[0]) : undefined };
}

const STOPPED = new Set(["STOPPED", "TERMINATED", "ERROR"]);
const compared = (a: Compute, b: Compute) => a.name.localeCompare(b.name);

export const kindOf = ({ warehouse }: Compute) => (warehouse ? "SQL warehouse" : "cluster");

/** Chooses on what statements run, and says what the first one will start. */
export function ComputePicker({ computes: { loaded, all, chosen } }: { computes: Computes }) {
  if (!loaded) return <Text size="sm">Reading the SQL warehouses and clusters</Text>;
  if (chosen === undefined)
    return (
      <Text size="sm">
        Statements run on a SQL warehouse or a cluster. There is none yet.{" "}
        <Link to="/compute/warehouses/create">Create SQL warehouse</Link>
      </Text>
    );
  const items = (warehouse: boolean) =>
    all
      .filter((each) => each.warehouse === warehouse)
      .map(({ id, name, runs, state }) => ({ value: id, label: runs ? name : `${name} (${state})` }));
  const groups = [
    { group: "SQL warehouses", items: items(true) },
    { group: "Clusters", items: items(false) },
  ];
  return (
    <Group gap={6} align="center">
      <NativeSelect
        size="xs"
        aria-label="Compute"
        data={groups.filter((each) => each.items.length > 0)}
        value={chosen.id}
        onChange={(event) => chosenCompute.set(event.currentTarget.value)}
      />
      <Text size="sm" c="dimmed" role="status">
        {!chosen.runs &&
          `This ${kindOf(chosen)} is ${chosen.state}. ${STOPPED.has(chosen.state) ? "Your first statement starts it." : "Statements wait for it."}`}
      </Text>
    </Group>
  );
}
