import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import type { Cluster } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery, pinnedQuery, pricesQuery, runtimesQuery } from "../api/queries";
import { session } from "../api/session";
import { ACTIONS, type ActionName, useActions } from "../clusters/actions";
import { hourly, isJob, isWarehouse, money } from "../clusters/facts";
import { Icon } from "../kit/icons";
import type { Selected } from "../kit/listing";
import type { ListSearch } from "../kit/listsearch";
import { Beginning } from "../kit/overview";
import { PlainButton } from "../kit/plain";
import { Reading } from "../kit/reading";
import { figure } from "../lib/sizes";
import { useValue } from "../lib/value";
import type { Known } from "./columns";
import { countersOf, isChosen, shows } from "./facets";
import { Filters } from "./filters";
import { ClusterTable } from "./table";

/** The clusters of one of the two tabs, all-purpose and job. */
export function Clusters() {
  const search = useSearch({ from: "/compute" });
  const navigate = useNavigate({ from: "/compute" });
  const live = useValue(connection) === "live";
  const clusters = useQuery({ ...clustersQuery, refetchInterval: live ? false : POLL_MS });
  const pinned = useQuery(pinnedQuery).data;
  const prices = useQuery(pricesQuery).data;
  const runtimes = useQuery(runtimesQuery).data;
  const [me, setMe] = useState("");
  const [selected, setSelected] = useState<Selected>({});
  const actions = useActions();
  useEffect(() => {
    session.get().then(
      (found) => setMe(found.user_name),
      () => {},
    );
  }, []);

  const ofTab = useMemo(
    () => (clusters.data ?? []).filter((each) => !isWarehouse(each) && isJob(each) === (search.tab === "job")),
    [clusters.data, search.tab],
  );
  const shown = useMemo(() => ofTab.filter(shows(search, me)), [ofTab, search, me]);
  const policies = useQuery(policiesQuery).data;
  const pools = useQuery(poolsQuery).data;
  const known = useMemo(() => {
    const names = new Map<string | null | undefined, string>([
      ...(policies ?? []).map((each) => [each.policy_id, each.name] as const),
      ...(pools ?? []).map((each) => [each.instance_pool_id, each.instance_pool_name] as const),
    ]);
    const nameFor = (id: string | null | undefined) => names.get(id) ?? id ?? "";
    return { pinned: pinned ?? new Set<string>(), prices, runtimes, nameFor };
  }, [pinned, prices, runtimes, policies, pools]);
  const chosen = shown.filter((each) => selected[each.cluster_id]);
  const change = (changed: Partial<ListSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });

  if (clusters.data === undefined) return <Reading query={clusters} what="Reading the clusters" />;
  return (
    <>
      {chosen.length > 0 && (
        <Bulk
          chosen={chosen}
          pinned={known.pinned}
          act={(name, which) => void actions.act(name, which).then(() => setSelected({}))}
          clear={() => setSelected({})}
        />
      )}
      {/* It stays while it is not seen: a search may just have been typed. */}
      <div hidden={chosen.length > 0}>
        <Filters search={search} change={change} clusters={ofTab} nameFor={known.nameFor} />
      </div>
      <Overview clusters={ofTab} prices={prices} chosen={search.state} choose={(state) => change({ state })} />
      {shown.length === 0 ? (
        <Nothing
          any={ofTab.length > 0}
          job={search.tab === "job"}
          clear={() => void navigate({ search: search.tab ? { tab: search.tab } : {} })}
        />
      ) : (
        <ClusterTable
          clusters={shown}
          known={known}
          sort={search.sort}
          onSort={(sort) => change({ sort })}
          selected={selected}
          onSelected={setSelected}
          busy={actions.busy}
          act={(name, cluster) => void actions.act(name, [cluster])}
        />
      )}
    </>
  );
}

interface OverviewProps {
  clusters: Cluster[];
  prices: Known["prices"];
  chosen: string[] | undefined; // states
  choose: (states: string[] | undefined) => void;
}

/** How many clusters there are in which states; each number filters the list. */
function Overview({ clusters, prices, chosen, choose }: OverviewProps) {
  const spend = clusters.reduce((sum, each) => sum + (hourly(each, prices?.perHour) ?? 0), 0);
  return (
    <div className="counters">
      {countersOf(clusters).map((each) => {
        const on = isChosen(each, chosen);
        return (
          <button key={each.name} type="button" aria-pressed={on} onClick={() => choose(on ? undefined : each.states)}>
            {each.name} <b>{figure(each.number)}</b>
          </button>
        );
      })}
      {prices !== undefined && (
        <span>
          Spend per hour <b>{money(spend, prices.currency)}</b>
        </span>
      )}
    </div>
  );
}

interface BulkProps {
  chosen: Cluster[];
  pinned: Known["pinned"];
  act: (name: ActionName, clusters: Cluster[]) => void;
  clear: () => void;
}

function Bulk({ chosen, pinned, act, clear }: BulkProps) {
  return (
    <div className="tools" role="toolbar" aria-label="Actions on the selected clusters">
      <b>{figure(chosen.length)} selected</b>
      {(Object.keys(ACTIONS) as ActionName[]).map((name) => {
        const fits = chosen.filter((each) => ACTIONS[name].fits(each, pinned.has(each.cluster_id)));
        if (fits.length === 0) return null;
        return (
          <PlainButton key={name} onClick={() => act(name, fits)}>
            <Icon name={ACTIONS[name].icon} size={14} />
            {fits.length === chosen.length ? ACTIONS[name].label : `${ACTIONS[name].label} ${figure(fits.length)}`}
          </PlainButton>
        );
      })}
      <PlainButton onClick={clear}>Clear selection</PlainButton>
    </div>
  );
}

const SDK = `from databricks.sdk import WorkspaceClient

w = WorkspaceClient()
w.clusters.create(
    cluster_name="mine",
    spark_version=w.clusters.select_spark_version(long_term_support=True, scala="2.13"),
    node_type_id="i3.xlarge",
    num_workers=2,
    autotermination_minutes=30,
).result()`;

function Nothing({ any, job, clear }: { any: boolean; job: boolean; clear: () => void }) {
  if (any)
    return (
      <div className="nothing">
        <p>No clusters match.</p>
        <PlainButton onClick={clear}>Clear the filters</PlainButton>
      </div>
    );
  if (job) return <p className="nothing">No job clusters in the last 30 days.</p>;
  return (
    <Beginning
      text="No clusters yet, or none that you have access to."
      to="/compute/create"
      label="Create compute"
      code={SDK}
    />
  );
}
