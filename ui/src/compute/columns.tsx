import type { Cluster } from "../api/client";
import {
  accessOf,
  driverType,
  failed,
  hourly,
  money,
  nameOf,
  reasonOf,
  running,
  since,
  tagsOf,
  target,
} from "../clusters/facts";
import { StateWord } from "../clusters/state";
import { Creator } from "../kit/creator";
import { Icon } from "../kit/icons";
import { type DataColumn, FIGURES, type ListColumn } from "../kit/listing";
import { Go } from "../kit/plain";
import { ago, exactly } from "../lib/time";

export interface Known {
  pinned: ReadonlySet<string | null | undefined>;
  prices: { currency: string; perHour: Map<string, number> } | undefined;
  runtimes: Map<string, string> | undefined;
  nameFor: (id: string | null | undefined) => string; // of a policy or a pool
}

/** What the menu of the columns gets: those that can be hidden. */
export interface ChoiceProps {
  columns: ListColumn<Cluster>[];
}

/** The columns in their order. Figures are sorted as such. */
export function columns(known: Known, now: number): DataColumn<Cluster>[] {
  const { pinned, prices, runtimes, nameFor } = known;
  const spend = (cluster: Cluster) => hourly(cluster, prices?.perHour);
  return [
    {
      id: "name",
      size: 160,
      header: "Name",
      enableHiding: false,
      accessorFn: nameOf,
      cell: ({ row: { original: each } }) => (
        <>
          <span className="name-id">
            <Go to={`/compute/clusters/${each.cluster_id}`}>{nameOf(each)}</Go>
            {pinned.has(each.cluster_id) && (
              <span role="img" aria-label="Pinned">
                <Icon name="pin" size={12} />
              </span>
            )}
            <span className="id">{each.cluster_id}</span>
          </span>
          {failed(each) && (
            <span className="reason" title={reasonOf(each)}>
              {reasonOf(each)}
            </span>
          )}
        </>
      ),
    },
    {
      id: "state",
      size: 120,
      header: "State",
      accessorFn: (each) => each.state ?? "",
      cell: ({ row: { original: each } }) => (
        <span className="since">
          <StateWord cluster={each} /> <Since then={since(each)} now={now} />
        </span>
      ),
    },
    { id: "driver", size: 84, header: "Driver", accessorFn: driverType },
    {
      id: "workers",
      size: 68,
      header: "Workers",
      meta: FIGURES,
      accessorFn: running,
      cell: ({ row: { original: each } }) => `${running(each)} / ${target(each)}`,
    },
    {
      id: "runtime",
      size: 72,
      header: "Runtime",
      accessorFn: (each) => runtimes?.get(each.spark_version ?? "") ?? each.spark_version ?? "",
      cell: ({ row: { original: each } }) =>
        (runtimes?.get(each.spark_version ?? "") ?? each.spark_version ?? "").split(" (")[0],
    },
    { id: "access", size: 92, header: "Access mode", accessorFn: accessOf },
    {
      id: "policy",
      size: 100,
      header: "Policy",
      accessorFn: (each) => nameFor(each.policy_id),
      cell: ({ row: { original: each } }) => <Named id={each.policy_id} of="policies" nameFor={nameFor} />,
    },
    {
      id: "pool",
      size: 100,
      header: "Pool",
      accessorFn: (each) => nameFor(each.instance_pool_id),
      cell: ({ row: { original: each } }) => <Named id={each.instance_pool_id} of="pools" nameFor={nameFor} />,
    },
    {
      id: "creator",
      size: 108,
      header: "Creator",
      accessorFn: (each) => each.creator_user_name ?? "",
      cell: ({ row: { original: each } }) => <Creator name={each.creator_user_name ?? ""} />,
    },
    {
      id: "spend",
      size: 76,
      header: "Spend per hour",
      meta: FIGURES,
      accessorFn: (each) => spend(each) ?? 0,
      cell: ({ row: { original: each } }) => {
        const amount = spend(each);
        return amount === undefined ? "" : money(amount, prices?.currency ?? "USD");
      },
    },
    {
      id: "activity",
      size: 92,
      header: "Last activity",
      accessorFn: (each) => each.last_activity_time ?? 0,
      cell: ({ row: { original: each } }) => <Since then={each.last_activity_time ?? undefined} now={now} />,
    },
    { id: "tags", size: 120, header: "Tags", enableSorting: false, accessorFn: (each) => tagsOf(each).join(", ") },
  ];
}

function Since({ then, now }: { then: number | undefined; now: number }) {
  if (then === undefined) return null;
  return (
    <span className="soft" title={exactly(then)}>
      {ago(then, now)}
    </span>
  );
}

interface NamedProps {
  id: string | null | undefined;
  of: "policies" | "pools";
  nameFor: Known["nameFor"];
}

/** A policy or pool by its name, with the way to its page; its id if the reader may not see it. */
function Named({ id, of, nameFor }: NamedProps) {
  if (!id) return null;
  const name = nameFor(id);
  if (name === id) return <>{id}</>;
  return (
    <Go to={`/compute/${of}/${id}`} className="quiet">
      {name}
    </Go>
  );
}
