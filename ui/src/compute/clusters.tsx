import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import type { Cluster } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery, pinnedQuery, pricesQuery, runtimesQuery } from "../api/queries";
import { session } from "../api/session";
import { ACTIONS, type ActionName, useActions } from "../clusters/actions";
import { active, failed, hourly, isJob, money } from "../clusters/facts";
import { Icon } from "../kit/icons";
import type { Selected } from "../kit/listing";
import type { ListSearch } from "../kit/listsearch";
import { Beginning, Counters } from "../kit/overview";
import { Reading } from "../kit/reading";
import { useValue } from "../lib/value";
import { Filters, shows } from "./filters";
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
    () => (clusters.data ?? []).filter((each) => isJob(each) === (search.tab === "job")),
    [clusters.data, search.tab],
  );
  const shown = useMemo(() => ofTab.filter(shows(search, me, active)), [ofTab, search, me]);
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
      <Overview clusters={ofTab} prices={prices} />
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

function Overview({
  clusters,
  prices,
}: {
  clusters: Cluster[];
  prices: { currency: string; perHour: Map<string, number> } | undefined;
}) {
  const count = (state: string) => clusters.filter((each) => each.state === state).length;
  const starting = clusters.filter((each) => active(each) && each.state !== "RUNNING" && each.state !== "TERMINATING");
  const spend = clusters.reduce((sum, each) => sum + (hourly(each, prices?.perHour) ?? 0), 0);
  const facts: [string, string][] = [
    ["Running", String(count("RUNNING"))],
    ["Starting or changing", String(starting.length)],
    ["Terminated", String(count("TERMINATED"))],
    ["Failed", String(clusters.filter(failed).length)],
  ];
  if (prices !== undefined) facts.push(["Spend per hour", money(spend, prices.currency)]);
  return <Counters counters={facts} />;
}

function Bulk({
  chosen,
  pinned,
  act,
  clear,
}: {
  chosen: Cluster[];
  pinned: ReadonlySet<string | null | undefined>;
  act: (name: ActionName, clusters: Cluster[]) => void;
  clear: () => void;
}) {
  return (
    <Group gap={6} role="toolbar" aria-label="Actions on the selected clusters">
      <Text fw={600} mr="xs">
        {chosen.length} selected
      </Text>
      {(Object.keys(ACTIONS) as ActionName[]).map((name) => {
        const fits = chosen.filter((each) => ACTIONS[name].fits(each, pinned.has(each.cluster_id)));
        if (fits.length === 0) return null;
        return (
          <Button
            key={name}
            variant="default"
            leftSection={<Icon name={ACTIONS[name].icon} size={14} />}
            onClick={() => act(name, fits)}
          >
            {fits.length === chosen.length ? ACTIONS[name].label : `${ACTIONS[name].label} ${fits.length}`}
          </Button>
        );
      })}
      <Button variant="subtle" color="gray" onClick={clear}>
        Clear selection
      </Button>
    </Group>
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
      <Stack className="nothing" align="flex-start" gap="xs">
        <Text>No clusters match.</Text>
        <Button variant="default" onClick={clear}>
          Clear the filters
        </Button>
      </Stack>
    );
  if (job)
    return (
      <Stack className="nothing" align="flex-start" gap="xs">
        <Text>No job clusters in the last 30 days.</Text>
      </Stack>
    );
  return (
    <Beginning
      text="No clusters yet, or none that you have access to."
      to="/compute/create"
      label="Create compute"
      code={SDK}
    />
  );
}
