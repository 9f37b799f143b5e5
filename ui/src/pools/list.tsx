import "./pools.css";
import { Menu, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { connection, POLL_MS } from "../api/live";
import { type Pool, type PoolDetails, poolDetailsQuery, poolsQuery } from "../api/offers";
import { runtimesQuery, sparkVersionsOf } from "../api/queries";
import { Creator } from "../kit/creator";
import { Icon } from "../kit/icons";
import { type DataColumn, FIGURES } from "../kit/listing";
import { ObjectList } from "../kit/objectlist";
import { Beginning, Counters } from "../kit/overview";
import { Reading } from "../kit/reading";
import { count } from "../lib/sizes";
import { useValue } from "../lib/value";
import { useDeletePool } from "./actions";
import { idleOf, idleText, minutes, pendingOf, poolTags, runtimeOf, troubleOf, usedOf } from "./facts";

export default function Pools() {
  const live = useValue(connection) === "live";
  const refetchInterval = live ? false : POLL_MS;
  const pools = useQuery({ ...poolsQuery, refetchInterval });
  const details = useQuery({ ...poolDetailsQuery, refetchInterval }).data;
  const runtimes = useQuery(runtimesQuery).data;
  const { busy, remove } = useDeletePool();
  if (pools.data === undefined) return <Reading query={pools} what="Reading the pools" />;
  if (pools.data.length === 0) return <Nothing />;
  const sum = (of: (pool: Pool) => number) => String(pools.data.reduce((total, each) => total + of(each), 0));
  return (
    <ObjectList
      label="Pools"
      objects={pools.data}
      idOf={(each) => each.instance_pool_id}
      nameOf={(each) => each.instance_pool_name}
      textsOf={(each) => [each.instance_pool_name, each.instance_pool_id, each.node_type_id, ...poolTags(each)]}
      columns={columns(details, (key) => sparkVersionsOf(runtimes, key))}
      busy={busy}
      menu={(each) => <Items pool={each} remove={() => void remove(each.instance_pool_id, each.instance_pool_name)} />}
      none="No pools match."
    >
      <Counters
        counters={[
          ["Pools", String(pools.data.length)],
          ["Idle", sum(idleOf)],
          ["Used", sum(usedOf)],
          ["Pending", sum(pendingOf)],
        ]}
      />
    </ObjectList>
  );
}

function columns(
  details: Map<string, PoolDetails> | undefined,
  runtimeName: (key: string) => string,
): DataColumn<Pool>[] {
  const detailsOf = (pool: Pool) => details?.get(pool.instance_pool_id);
  return [
    {
      id: "name",
      size: 150,
      header: "Name",
      accessorFn: (each) => each.instance_pool_name,
      cell: ({ row: { original: each } }) => (
        <span className="name-id">
          <Link to="/compute/pools/$id" params={{ id: each.instance_pool_id }}>
            {each.instance_pool_name}
          </Link>
          {troubleOf(each).length > 0 && (
            <Tooltip label={troubleOf(each)[0]?.message} multiline maw={420}>
              <span className="word bad"> {count(troubleOf(each).length, "problem")}</span>
            </Tooltip>
          )}
          <span className="id">{each.instance_pool_id}</span>
        </span>
      ),
    },
    { id: "type", size: 80, header: "Node type", accessorFn: (each) => each.node_type_id },
    {
      id: "runtime",
      size: 74,
      header: "Preloaded",
      accessorFn: (each) => runtimeName(runtimeOf(each)).split(" (")[0] ?? "",
      cell: ({ row: { original: each } }) =>
        runtimeName(runtimeOf(each)).split(" (")[0] || <span className="soft">none</span>,
    },
    {
      id: "idle",
      size: 74,
      header: "Idle",
      meta: FIGURES,
      accessorFn: idleOf,
      cell: ({ row: { original: each } }) => idleText(each, detailsOf(each)),
    },
    { id: "used", size: 50, header: "Used", meta: FIGURES, accessorFn: usedOf },
    { id: "pending", size: 66, header: "Pending", meta: FIGURES, accessorFn: pendingOf },
    { id: "min", size: 58, header: "Min idle", meta: FIGURES, accessorFn: (each) => each.min_idle_instances ?? 0 },
    {
      id: "max",
      size: 64,
      header: "Max",
      meta: FIGURES,
      accessorFn: (each) => each.max_capacity ?? Number.POSITIVE_INFINITY,
      cell: ({ row: { original: each } }) => each.max_capacity ?? "no limit",
    },
    {
      id: "timeout",
      size: 72,
      header: "Idle time-out",
      meta: FIGURES,
      accessorFn: (each) => each.idle_instance_autotermination_minutes ?? 0,
      cell: ({ row: { original: each } }) => minutes(each.idle_instance_autotermination_minutes),
    },
    { id: "tags", size: 84, header: "Tags", accessorFn: (each) => poolTags(each).join(", ") },
    {
      id: "creator",
      size: 108,
      header: "Creator",
      accessorFn: (each) => detailsOf(each)?.creator_user_name ?? "",
      cell: ({ row: { original: each } }) => <Creator name={detailsOf(each)?.creator_user_name ?? ""} />,
    },
  ];
}

function Items({ pool, remove }: { pool: Pool; remove: () => void }) {
  const params = { id: pool.instance_pool_id };
  return (
    <>
      <Menu.Item
        renderRoot={(props) => <Link {...props} to="/compute/pools/$id/edit" params={params} />}
        leftSection={<Icon name="pencil" size={14} />}
      >
        Edit
      </Menu.Item>
      <Menu.Item
        renderRoot={(props) => (
          <Link {...props} to="/compute/pools/$id" params={params} search={{ tab: "permissions" }} />
        )}
        leftSection={<Icon name="people" size={14} />}
      >
        Permissions
      </Menu.Item>
      <Menu.Item leftSection={<Icon name="trash" size={14} />} onClick={remove}>
        Delete
      </Menu.Item>
    </>
  );
}

const SDK = `from databricks.sdk import WorkspaceClient

w = WorkspaceClient()
w.instance_pools.create(
    instance_pool_name="warm",
    node_type_id="i3.xlarge",
    min_idle_instances=2,
    max_capacity=10,
    preloaded_spark_versions=[w.clusters.select_spark_version(long_term_support=True, scala="2.13")],
)`;

function Nothing() {
  return (
    <Beginning
      text="No pools yet, or none that you have access to. A pool keeps instances ready, so that clusters start in seconds."
      to="/compute/pools/create"
      label="Create pool"
      code={SDK}
    />
  );
}
