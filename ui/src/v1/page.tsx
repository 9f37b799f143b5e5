import "../cluster/cluster.css";
import "../kit/pages.css";
import { Group, Select, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { clustersQuery } from "../api/queries";
import { isOwned, nameOf } from "../clusters/facts";
import { StateWord } from "../clusters/state";
import { PageHead } from "../kit/help";
import { type LazyTab, LazyTabs } from "../kit/lazytabs";
import { Reading } from "../kit/reading";
import { useTitle } from "../kit/title";
import { LimitsTab } from "./limits";
import { Schedules } from "./schedules";
import { readV1Search, type V1Tab } from "./search";
import { Snapshots } from "./snapshots";

const TABS: LazyTab<V1Tab, { id: string }>[] = [
  { tab: "schedules", label: "Schedules", Content: Schedules },
  { tab: "snapshots", label: "Snapshots", Content: Snapshots },
  { tab: "limits", label: "Limits", Content: LimitsTab },
];

/** What the /v1 API has of a cluster beside the Databricks API. Its ports are a tab of the cluster's page. */
export function V1Page() {
  const given = useSearch({ from: "/schedules" });
  const search = useMemo(() => readV1Search({ ...given }), [given]);
  const navigate = useNavigate({ from: "/schedules" });
  const asked = useQuery(clustersQuery);
  useTitle("Schedules");
  const clusters = (asked.data ?? []).filter((each) => !isOwned(each));
  const chosen = clusters.find((each) => each.cluster_id === search.cluster) ?? clusters[0];
  return (
    <div className="content">
      <PageHead title="Schedules and snapshots" topic="v1" />
      {asked.data === undefined ? (
        <Reading query={asked} what="Reading the clusters" />
      ) : chosen === undefined ? (
        <Text className="nothing">
          No clusters yet. <Link to="/compute/create">Create one</Link>
        </Text>
      ) : (
        <>
          <Group gap="sm" align="flex-end">
            <Select
              size="xs"
              label="Cluster"
              searchable
              limit={100}
              allowDeselect={false}
              data={clusters.map((each) => ({ value: each.cluster_id, label: nameOf(each) }))}
              value={chosen.cluster_id}
              onChange={(cluster) => void navigate({ search: (old) => ({ ...old, cluster: cluster ?? undefined }) })}
            />
            <StateWord cluster={chosen} />
            <Link to="/compute/clusters/$id" params={{ id: chosen.cluster_id }}>
              Open the cluster
            </Link>
            <Link to="/compute/clusters/$id" params={{ id: chosen.cluster_id }} search={{ tab: "apps" }}>
              Its ports
            </Link>
          </Group>
          <LazyTabs
            key={chosen.cluster_id}
            label="Of this cluster"
            tabs={TABS}
            chosen={search.tab}
            open={(tab) => void navigate({ search: (old) => ({ ...old, tab }) })}
            content={{ id: chosen.cluster_id }}
          />
        </>
      )}
    </div>
  );
}
