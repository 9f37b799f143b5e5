import "../cluster/cluster.css";
import "../pools/pools.css";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Permissions } from "../access/permissions";
import { useLevel } from "../access/rights";
import { pricesQuery, runtimesQuery, sparkVersionsOf } from "../api/queries";
import { type Warehouse, warehouseQuery } from "../api/warehouses";
import { Timeline } from "../cluster/timeline";
import { Connection } from "../connect/connection";
import { FactList } from "../kit/factlist";
import { HeadButton, ObjectHead, ObjectPage } from "../kit/objectpage";
import { type ObjectTab, ObjectTabs } from "../kit/objecttabs";
import { History } from "../statements/history";
import { ACTIONS, type ActionName, useWarehouseActions } from "./actions";
import { CHANNELS, SPOT } from "./draft";
import { costText, LEVELS, sizeText, stopsAfter, tagTexts, WarehouseState } from "./facts";
import type { WarehouseTab } from "./search";

const POLL_MS = 2000;

export function WarehousePage() {
  const { id } = useParams({ from: "/compute/warehouses/$id" });
  return <OfWarehouse key={id} id={id} />;
}

function OfWarehouse({ id }: { id: string }) {
  const { tab } = useSearch({ from: "/compute/warehouses/$id" });
  const navigate = useNavigate({ from: "/compute/warehouses/$id" });
  const asked = useQuery({ ...warehouseQuery(id), refetchInterval: POLL_MS });
  const may = useLevel({ of: "warehouses", id }, LEVELS);
  const open = (next: WarehouseTab | undefined) => void navigate({ search: next === undefined ? {} : { tab: next } });
  const tabs = (warehouse: Warehouse, gone: boolean): ObjectTab<WarehouseTab>[] => [
    { tab: "overview", label: "Overview", content: <Overview warehouse={warehouse} /> },
    {
      tab: "connection",
      label: "Connection details",
      content: (
        <>
          <p className="soft">
            SQL clients connect with a token of a user who has CAN_USE on this warehouse. Settings has your tokens.
          </p>
          <Connection path={`/sql/1.0/warehouses/${id}`} />
        </>
      ),
    },
    { tab: "monitoring", label: "Monitoring", content: <History wanted={{ compute: id }} /> },
    {
      tab: "permissions",
      label: "Permissions",
      content: (
        <Permissions on={{ of: "warehouses", id }} owner={warehouse.creator_name} manage={!gone && may("CAN_MANAGE")} />
      ),
    },
  ];
  return (
    <ObjectPage
      noun="SQL warehouse"
      query={asked}
      title={asked.data?.name ?? id}
      back={{ tab: "sql", label: "SQL warehouses" }}
    >
      {(warehouse, gone) => (
        <>
          <Header warehouse={warehouse} may={(level) => !gone && may(level)} gone={gone} />
          {warehouse.state === "STARTING" && <Timeline id={warehouse.cluster_id ?? id} live={false} />}
          {warehouse.health.status && warehouse.health.status !== "HEALTHY" && (
            <div className="gone" role="alert">
              <b>{warehouse.health.summary}.</b> {warehouse.health.details}
            </div>
          )}
          <ObjectTabs label="About the SQL warehouse" tabs={tabs(warehouse, gone)} chosen={tab} open={open} />
        </>
      )}
    </ObjectPage>
  );
}

interface HeaderProps {
  warehouse: Warehouse;
  may: (level: (typeof LEVELS)[number]) => boolean;
  gone: boolean;
}

function Header({ warehouse, may, gone }: HeaderProps) {
  const navigate = useNavigate();
  const { busy, act } = useWarehouseActions();
  const { id } = warehouse;
  const why = (level: (typeof LEVELS)[number]) => (may(level) ? undefined : `You need ${level} on this warehouse`);
  const button = (name: ActionName, after?: () => void) => (
    <HeadButton
      key={name}
      icon={ACTIONS[name].icon}
      label={ACTIONS[name].label}
      why={why(ACTIONS[name].takes)}
      loading={busy !== ""}
      onClick={() => void act(name, warehouse).then((done) => done && after?.())}
    />
  );
  const actions = !gone && (
    <>
      {(["start", "stop"] as const).filter((name) => ACTIONS[name].fits(warehouse)).map((name) => button(name))}
      <HeadButton
        icon="pencil"
        label="Edit"
        why={why("CAN_MANAGE")}
        onClick={() => void navigate({ to: "/compute/warehouses/$id/edit", params: { id } })}
      />
      {button("delete", () => void navigate({ to: "/compute", search: { tab: "sql" } }))}
    </>
  );
  const facts: [string, string][] = [
    ["Size", sizeText(warehouse.cluster_size)],
    ["Sessions", String(warehouse.num_active_sessions)],
    ["Auto stop", stopsAfter(warehouse.auto_stop_mins)],
    ["Creator", warehouse.creator_name],
  ];
  return (
    <ObjectHead
      name={warehouse.name}
      topic="sql-warehouses"
      beside={<WarehouseState warehouse={warehouse} />}
      actions={actions}
    >
      <FactList facts={facts} id={id} />
    </ObjectHead>
  );
}

function Overview({ warehouse }: { warehouse: Warehouse }) {
  const runtimes = useQuery(runtimesQuery).data;
  const prices = useQuery(pricesQuery).data;
  const { channel, spot_instance_policy: spot, cluster_id, node_type_id, spark_version } = warehouse;
  const rows: [string, React.ReactNode][] = [
    ["Size", sizeText(warehouse.cluster_size)],
    ["Node type", node_type_id],
    ["While it runs, per hour", costText(warehouse.cluster_size, node_type_id, prices)],
    ["Channel", CHANNELS[channel.name as keyof typeof CHANNELS] ?? channel.name],
    ["Runtime", sparkVersionsOf(runtimes, spark_version)],
    ["Auto stop", stopsAfter(warehouse.auto_stop_mins)],
    ["Spot instance policy", SPOT[spot as keyof typeof SPOT] ?? spot],
    ["Type", warehouse.warehouse_type],
    ["Tags", tagTexts(warehouse).join(", ")],
    [
      "Cluster",
      cluster_id && (
        <>
          <Link to="/compute/clusters/$id" params={{ id: cluster_id }} search={{ tab: "events" }}>
            Events
          </Link>
          ,{" "}
          <Link to="/compute/clusters/$id" params={{ id: cluster_id }} search={{ tab: "spark-ui" }}>
            Spark UI
          </Link>
          ,{" "}
          <Link to="/compute/clusters/$id" params={{ id: cluster_id }} search={{ tab: "logs" }}>
            logs
          </Link>{" "}
          and{" "}
          <Link to="/compute/clusters/$id" params={{ id: cluster_id }} search={{ tab: "metrics" }}>
            metrics
          </Link>
        </>
      ),
    ],
  ];
  return (
    <dl className="rows" aria-label="Configuration">
      {rows.map(
        ([name, value]) =>
          value && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
