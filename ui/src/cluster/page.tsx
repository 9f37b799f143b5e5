import type { TabProps } from "./tab";
import "./cluster.css";
import { Anchor, Loader, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { type ComponentType, lazy, Suspense, useEffect } from "react";
import { ApiError, isGone, words } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { clusterQuery } from "../api/queries";
import { offered } from "../api/session";
import { TabList } from "../app/tablist";
import { Trouble } from "../app/trouble";
import { Waiting } from "../app/waiting";
import { nameOf } from "../compute/facts";
import { useValue } from "../lib/value";
import { Failure } from "./failure";
import { Header } from "./header";
import { useRights } from "./rights";
import type { ClusterSearch, Tab } from "./search";
import { Timeline } from "./timeline";

/** `of`: what the workspace has to have for the tab. */
const KNOWN: { tab: Tab; label: string; of?: string; Content: ComponentType<TabProps> }[] = [
  { tab: "configuration", label: "Configuration", Content: lazy(() => import("./configuration")) },
  { tab: "notebooks", label: "Notebooks", Content: lazy(() => import("./notebooks")) },
  { tab: "libraries", label: "Libraries", Content: lazy(() => import("./libraries")) },
  { tab: "events", label: "Event log", Content: lazy(() => import("./events")) },
  {
    tab: "spark-ui",
    label: "Spark UI",
    of: "/api/2.1/clusters/spark-ui-link",
    Content: lazy(() => import("./sparkui")),
  },
  { tab: "logs", label: "Driver logs", of: "/api/2.1/clusters/logs/list", Content: lazy(() => import("./logs")) },
  { tab: "metrics", label: "Metrics", of: "/api/2.1/clusters/metrics", Content: lazy(() => import("./metrics")) },
  { tab: "apps", label: "Apps", of: "/v1/clusters/{cluster_id}/proxy", Content: lazy(() => import("./apps")) },
  { tab: "permissions", label: "Permissions", Content: lazy(() => import("./permissions")) },
];

export function ClusterPage() {
  const { id } = useParams({ from: "/compute/clusters/$id" });
  return <OfCluster key={id} id={id} />;
}

function OfCluster({ id }: { id: string }) {
  const search = useSearch({ from: "/compute/clusters/$id" });
  const navigate = useNavigate({ from: "/compute/clusters/$id" });
  const live = useValue(connection) === "live";
  const asked = useQuery({ ...clusterQuery(id), refetchInterval: live ? false : POLL_MS });
  const may = useRights(id);
  const cluster = asked.data;
  const name = cluster === undefined ? id : nameOf(cluster);
  useEffect(() => {
    document.title = `${name} - Brickyard`;
  }, [name]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another tab has to come into sight where not all of them fit
  useEffect(() => {
    document.querySelector(".tabs [aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [search.tab, cluster === undefined]);
  if (cluster === undefined)
    return (
      <div className="content">
        <Back />
        {asked.isError ? (
          <Trouble error={asked.error} retry={() => void asked.refetch()} />
        ) : (
          <Waiting what="Reading the cluster" />
        )}
      </div>
    );
  const gone = asked.isError && isGone(asked.error);
  const open = (tab: Tab, more: Partial<ClusterSearch> = {}) =>
    void navigate({ search: { ...more, tab: tab === "configuration" ? undefined : tab } });
  const change = (changed: Partial<ClusterSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const tabs = KNOWN.filter((each) => each.of === undefined || offered(each.of));
  const shown = tabs.find((each) => each.tab === (search.tab ?? "configuration")) ?? tabs[0];
  return (
    <div className="content cluster">
      <Back />
      {gone ? (
        <div className="gone" role="alert">
          <b>This cluster was deleted.</b> What you see is how it was; nothing can be done with it any more.
        </div>
      ) : (
        asked.error instanceof ApiError &&
        asked.error.status !== 401 && (
          <div className="gone" role="alert">
            <b>What you see may be old.</b> {words(asked.error)}
          </div>
        )
      )}
      <Header cluster={cluster} may={(level) => !gone && may(level)} gone={gone} open={open} />
      {!gone && <Timeline id={id} live={live} />}
      <Failure cluster={cluster} open={open} />
      <Tabs value={shown?.tab} onChange={(tab) => open(tab as Tab)} keepMounted={false} className="tabs">
        <TabList label="About the cluster" chosen={shown?.tab}>
          {tabs.map(({ tab, label }) => (
            <Tabs.Tab key={tab} value={tab}>
              {label}
            </Tabs.Tab>
          ))}
        </TabList>
        {shown && (
          <Tabs.Panel value={shown.tab} className="tab">
            <Suspense fallback={<Loader size="xs" m="md" role="status" aria-label="Loading" />}>
              <shown.Content
                cluster={cluster}
                may={(level) => !gone && may(level)}
                live={live || gone}
                search={search}
                change={change}
                open={open}
              />
            </Suspense>
          </Tabs.Panel>
        )}
      </Tabs>
    </div>
  );
}

function Back() {
  return (
    <nav aria-label="Breadcrumb">
      <Text size="sm">
        <Anchor renderRoot={(props) => <Link to="/compute" {...props} />} c="dimmed" size="sm">
          Compute
        </Anchor>
      </Text>
    </nav>
  );
}
