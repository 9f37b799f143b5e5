import { Link } from "@tanstack/react-router";
import { type ColumnDef, createColumnHelper } from "@tanstack/react-table";
import type { Cluster } from "../api/client";
import { Icon } from "../app/icons";
import { ago, exactly, useNow } from "../lib/time";
import { accessOf, driverType, hourly, money, nameOf, running, since, tagsOf, target } from "./facts";
import { PolicyLink, PoolLink } from "./links";
import { StateWord } from "./state";

export interface Known {
  pinned: ReadonlySet<string | null | undefined>;
  prices: { currency: string; perHour: Map<string, number> } | undefined;
  runtimes: Map<string, string> | undefined;
  nameFor: (id: string | null | undefined) => string; // of a policy or a pool
}

declare module "@tanstack/react-table" {
  interface ColumnMeta<TData, TValue> {
    label: string;
    figures?: boolean;
  }
}

const MINUTE = 60_000;
const column = createColumnHelper<Cluster>();

function Since({ cluster }: { cluster: Cluster }) {
  const now = useNow(MINUTE);
  const then = since(cluster);
  if (then === undefined) return null;
  return (
    <span className="soft" title={exactly(then)}>
      {ago(then, now)}
    </span>
  );
}

/** The columns in their order. Figures are sorted as such. */
// biome-ignore lint/suspicious/noExplicitAny: each column has a value of its own type
export function columns(known: Known): ColumnDef<Cluster, any>[] {
  const { pinned, prices, runtimes } = known;
  const spend = (cluster: Cluster) => hourly(cluster, prices?.perHour);
  return [
    column.accessor(nameOf, {
      id: "name",
      meta: { label: "Name" },
      enableHiding: false,
      cell: ({ row: { original: each }, getValue }) => (
        <span className="name-id">
          <Link to="/compute/clusters/$id" params={{ id: each.cluster_id }}>
            {getValue()}
          </Link>
          {pinned.has(each.cluster_id) && (
            <span role="img" aria-label="Pinned">
              <Icon name="pin" size={12} />
            </span>
          )}
          <span className="id">{each.cluster_id}</span>
        </span>
      ),
    }),
    column.accessor((each) => each.state ?? "", {
      id: "state",
      meta: { label: "State" },
      cell: ({ row }) => (
        <span className="since">
          <StateWord cluster={row.original} /> <Since cluster={row.original} />
        </span>
      ),
    }),
    column.accessor(driverType, { id: "driver", meta: { label: "Driver" } }),
    column.accessor(running, {
      id: "workers",
      meta: { label: "Workers", figures: true },
      cell: ({ row }) => `${running(row.original)} / ${target(row.original)}`,
    }),
    column.accessor((each) => each.spark_version ?? "", {
      id: "runtime",
      meta: { label: "Runtime" },
      cell: ({ getValue }) => {
        const whole = runtimes?.get(getValue()) ?? getValue();
        return <span title={whole}>{whole.split(" (")[0]}</span>;
      },
    }),
    column.accessor(accessOf, { id: "access", meta: { label: "Access mode" } }),
    column.accessor((each) => known.nameFor(each.policy_id), {
      id: "policy",
      meta: { label: "Policy" },
      cell: ({ row: { original: each } }) => each.policy_id && <PolicyLink id={each.policy_id} />,
    }),
    column.accessor((each) => known.nameFor(each.instance_pool_id), {
      id: "pool",
      meta: { label: "Pool" },
      cell: ({ row: { original: each } }) => each.instance_pool_id && <PoolLink id={each.instance_pool_id} />,
    }),
    column.accessor((each) => each.creator_user_name ?? "", { id: "creator", meta: { label: "Creator" } }),
    column.accessor((each) => spend(each) ?? 0, {
      id: "spend",
      meta: { label: "Spend per hour", figures: true },
      cell: ({ row }) => {
        const amount = spend(row.original);
        return amount === undefined ? "" : money(amount, prices?.currency ?? "USD");
      },
    }),
    column.accessor((each) => tagsOf(each).join(", "), { id: "tags", meta: { label: "Tags" }, enableSorting: false }),
  ];
}
