import "../pools/pools.css";
import { Menu } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Warehouse, warehousesQuery } from "../api/warehouses";
import { Creator } from "../kit/creator";
import { Icon } from "../kit/icons";
import { type DataColumn, FIGURES } from "../kit/listing";
import { ObjectList } from "../kit/objectlist";
import { Beginning, Counters } from "../kit/overview";
import { Reading } from "../kit/reading";
import { runningQuery } from "../statements/calls";
import { ACTIONS, type ActionName, useWarehouseActions } from "./actions";
import { SIZES, type Size } from "./draft";
import { stopsAfter, tagTexts, WarehouseState } from "./facts";

export default function Warehouses() {
  const asked = useQuery(warehousesQuery);
  const running = useQuery(runningQuery).data;
  const { busy, act } = useWarehouseActions();
  if (asked.data === undefined) return <Reading query={asked} what="Reading the SQL warehouses" />;
  if (asked.data.length === 0) return <Nothing />;
  const counted = (of: (warehouse: Warehouse) => number) =>
    String(asked.data.reduce((total, each) => total + of(each), 0));
  return (
    <ObjectList
      label="SQL warehouses"
      objects={asked.data}
      idOf={(each) => each.id}
      nameOf={(each) => each.name}
      textsOf={(each) => [each.name, each.id, each.cluster_size, each.creator_name, ...tagTexts(each)]}
      columns={columns(running)}
      busy={busy}
      menu={(each) => <Items warehouse={each} act={(name) => void act(name, each)} />}
      none="No SQL warehouses match."
    >
      <Counters
        counters={[
          ["Warehouses", String(asked.data.length)],
          ["Running", counted((each) => Number(each.state === "RUNNING"))],
          ["Sessions", counted((each) => each.num_active_sessions)],
          ["Running statements", counted((each) => running?.get(each.id) ?? 0)],
        ]}
      />
    </ObjectList>
  );
}

function columns(running: Map<string, number> | undefined): DataColumn<Warehouse>[] {
  return [
    {
      id: "name",
      size: 160,
      header: "Name",
      accessorFn: (each) => each.name,
      cell: ({ row: { original: each } }) => (
        <span className="name-id">
          <Link to="/compute/warehouses/$id" params={{ id: each.id }}>
            {each.name}
          </Link>
          <span className="id">{each.id}</span>
        </span>
      ),
    },
    {
      id: "state",
      size: 96,
      header: "State",
      accessorFn: (each) => each.state,
      cell: ({ row: { original: each } }) => <WarehouseState warehouse={each} />,
    },
    {
      id: "size",
      size: 84,
      header: "Size",
      accessorFn: (each) => SIZES[each.cluster_size as Size] ?? each.cluster_size,
      cell: ({ row: { original: each } }) => each.cluster_size,
    },
    {
      id: "statements",
      size: 90,
      header: "Statements",
      meta: FIGURES,
      accessorFn: (each) => running?.get(each.id) ?? 0,
    },
    { id: "sessions", size: 70, header: "Sessions", meta: FIGURES, accessorFn: (each) => each.num_active_sessions },
    {
      id: "stop",
      size: 74,
      header: "Auto stop",
      meta: FIGURES,
      accessorFn: (each) => each.auto_stop_mins || Number.POSITIVE_INFINITY,
      cell: ({ row: { original: each } }) => stopsAfter(each.auto_stop_mins),
    },
    { id: "tags", size: 84, header: "Tags", accessorFn: (each) => tagTexts(each).join(", ") },
    {
      id: "creator",
      size: 108,
      header: "Creator",
      accessorFn: (each) => each.creator_name,
      cell: ({ row: { original: each } }) => <Creator name={each.creator_name} />,
    },
  ];
}

function Items({ warehouse, act }: { warehouse: Warehouse; act: (name: ActionName) => void }) {
  const params = { id: warehouse.id };
  const item = (name: ActionName) => (
    <Menu.Item key={name} leftSection={<Icon name={ACTIONS[name].icon} size={14} />} onClick={() => act(name)}>
      {ACTIONS[name].label}
    </Menu.Item>
  );
  return (
    <>
      {(["start", "stop"] as const).filter((name) => ACTIONS[name].fits(warehouse)).map(item)}
      <Menu.Item
        renderRoot={(props) => <Link {...props} to="/compute/warehouses/$id/edit" params={params} />}
        leftSection={<Icon name="pencil" size={14} />}
      >
        Edit
      </Menu.Item>
      <Menu.Item
        renderRoot={(props) => (
          <Link {...props} to="/compute/warehouses/$id" params={params} search={{ tab: "permissions" }} />
        )}
        leftSection={<Icon name="people" size={14} />}
      >
        Permissions
      </Menu.Item>
      {item("delete")}
    </>
  );
}

const SDK = `from databricks.sdk import WorkspaceClient

w = WorkspaceClient()
w.warehouses.create(name="reports", cluster_size="2X-Small", auto_stop_mins=20)`;

function Nothing() {
  return (
    <Beginning
      text="No SQL warehouses yet, or none that you have access to. A SQL warehouse runs the statements of SQL clients and of the SQL editor: it starts with the first one and stops after minutes without one."
      to="/compute/warehouses/create"
      label="Create SQL warehouse"
      code={SDK}
    />
  );
}
