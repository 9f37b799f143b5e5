import type { Cluster } from "../api/client";
import type { DataColumn } from "../app/datatable";
import { Icon } from "../app/icons";
import { Go } from "../app/plain";
import { ago, exactly } from "../lib/time";
import { accessOf, driverType, hourly, money, nameOf, running, since, tagsOf, target } from "./facts";
import { StateWord } from "./state";

export interface Known {
  pinned: ReadonlySet<string | null | undefined>;
  prices: { currency: string; perHour: Map<string, number> } | undefined;
  runtimes: Map<string, string> | undefined;
  nameFor: (id: string | null | undefined) => string; // of a policy or a pool
}

/** `always`: it cannot be hidden. `unsorted`: an order by it would say nothing. */
export type ListColumn = DataColumn<Cluster> & { always?: true; unsorted?: true };

/** The columns in their order. Figures are sorted as such. */
export function columns(known: Known, now: number): ListColumn[] {
  const { pinned, prices, runtimes, nameFor } = known;
  const spend = (cluster: Cluster) => hourly(cluster, prices?.perHour);
  return [
    {
      id: "name",
      label: "Name",
      always: true,
      value: nameOf,
      cell: (each) => (
        <span className="name-id">
          <Go to={`/compute/clusters/${each.cluster_id}`}>{nameOf(each)}</Go>
          {pinned.has(each.cluster_id) && (
            <span role="img" aria-label="Pinned">
              <Icon name="pin" size={12} />
            </span>
          )}
          <span className="id">{each.cluster_id}</span>
        </span>
      ),
    },
    {
      id: "state",
      label: "State",
      value: (each) => each.state ?? "",
      cell: (each) => (
        <span className="since">
          <StateWord cluster={each} /> <Since then={since(each)} now={now} />
        </span>
      ),
    },
    { id: "driver", label: "Driver", value: driverType },
    {
      id: "workers",
      label: "Workers",
      figures: true,
      value: running,
      cell: (each) => `${running(each)} / ${target(each)}`,
    },
    {
      id: "runtime",
      label: "Runtime",
      value: (each) => runtimes?.get(each.spark_version ?? "") ?? each.spark_version ?? "",
      cell: (each) => (runtimes?.get(each.spark_version ?? "") ?? each.spark_version ?? "").split(" (")[0],
    },
    { id: "access", label: "Access mode", value: accessOf },
    {
      id: "policy",
      label: "Policy",
      value: (each) => nameFor(each.policy_id),
      cell: (each) => <Named id={each.policy_id} of="policies" nameFor={nameFor} />,
    },
    {
      id: "pool",
      label: "Pool",
      value: (each) => nameFor(each.instance_pool_id),
      cell: (each) => <Named id={each.instance_pool_id} of="pools" nameFor={nameFor} />,
    },
    { id: "creator", label: "Creator", value: (each) => each.creator_user_name ?? "" },
    {
      id: "spend",
      label: "Spend per hour",
      figures: true,
      value: (each) => spend(each) ?? 0,
      cell: (each) => {
        const amount = spend(each);
        return amount === undefined ? "" : money(amount, prices?.currency ?? "USD");
      },
    },
    { id: "tags", label: "Tags", unsorted: true, value: (each) => tagsOf(each).join(", ") },
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
