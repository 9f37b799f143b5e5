import type { TabProps } from "./tab";
import "./cluster.css";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy } from "react";
import { connection, POLL_MS } from "../api/live";
import { clusterQuery } from "../api/queries";
import { nameOf } from "../clusters/facts";
import { useRights } from "../clusters/rights";
import { type LazyTab, LazyTabs } from "../kit/lazytabs";
import { ObjectPage } from "../kit/objectpage";
import { useValue } from "../lib/value";
import { ConsoleDrawer } from "./console/drawer";
import { Failure } from "./failure";
import { Header } from "./header";
import type { ClusterSearch, Tab } from "./search";
import { Timeline } from "./timeline";

const TABS: LazyTab<Tab, TabProps>[] = [
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
  { tab: "jdbc", label: "JDBC/ODBC", Content: lazy(() => import("./jdbc")) },
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
  const may = useRights(asked.data);
  const open = (tab: Tab, more: Partial<ClusterSearch> = {}) =>
    void navigate({ search: { ...more, tab: tab === "configuration" ? undefined : tab } });
  const change = (changed: Partial<ClusterSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  return (
    <ObjectPage noun="cluster" query={asked} title={asked.data ? nameOf(asked.data) : id}>
      {(cluster, gone) => (
        <>
          <Header cluster={cluster} may={(level) => !gone && may(level)} gone={gone} open={open} />
          {!gone && <Timeline id={id} live={live} />}
          <Failure cluster={cluster} may={(level) => !gone && may(level)} open={open} />
          <LazyTabs
            label="About the cluster"
            tabs={TABS}
            chosen={search.tab}
            open={open}
            content={{ cluster, may: (level) => !gone && may(level), live: live || gone, search, change, open }}
          />
          {!gone && search.tab !== "notebooks" && <ConsoleDrawer cluster={cluster} may={may} />}
        </>
      )}
    </ObjectPage>
  );
}
