import "../cluster/cluster.css";
import "../kit/pages.css";
import "./admin.css";
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy } from "react";
import { meQuery } from "../access/rights";
import { PageHead } from "../kit/help";
import { type LazyTab, LazyTabs } from "../kit/lazytabs";
import { Reading } from "../kit/reading";
import { useTitle } from "../kit/title";
import type { AdminProps, AdminSearch, AdminTab } from "./search";

const TABS: LazyTab<AdminTab, AdminProps>[] = [
  {
    tab: "users",
    label: "Users",
    Content: lazy(() => import("./identities").then((found) => ({ default: found.Users }))),
  },
  { tab: "groups", label: "Groups", Content: lazy(() => import("./groups")) },
  {
    tab: "service-principals",
    label: "Service principals",
    Content: lazy(() => import("./identities").then((found) => ({ default: found.ServicePrincipals }))),
  },
  { tab: "tokens", label: "Tokens", Content: lazy(() => import("./alltokens")) },
  { tab: "audit", label: "Audit log", of: "/api/2.0/audit-logs", Content: lazy(() => import("./audit")) },
  { tab: "runtimes", label: "Runtimes", of: "/api/2.1/runtimes", Content: lazy(() => import("./runtimes")) },
  {
    tab: "notifications",
    label: "Notifications",
    of: "/api/2.0/notification-destinations",
    Content: lazy(() => import("./destinations")),
  },
  { tab: "machine", label: "Nodes and capacity", of: "/api/2.1/machine", Content: lazy(() => import("./machine")) },
];

export function AdminPage() {
  const search = useSearch({ from: "/admin" });
  const navigate = useNavigate({ from: "/admin" });
  const me = useQuery(meQuery);
  useTitle("Admin");
  const change = (changed: Partial<AdminSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  return (
    <div className="content admin">
      <PageHead title="Admin" topic={search.tab === "audit" ? "audit" : "identity"} />
      {me.data === undefined ? (
        <Reading query={me} what="Reading who you are" />
      ) : !me.data.groups.has("admins") ? (
        <Text className="nothing">
          Only administrators of this workspace see these pages. Your own tokens are in your{" "}
          <Link to="/settings">settings</Link>.
        </Text>
      ) : (
        <LazyTabs
          label="Pages for administrators"
          tabs={TABS}
          chosen={search.tab}
          open={(tab) => void navigate({ search: tab === "users" ? {} : { tab } })}
          content={{ search, change }}
        />
      )}
    </div>
  );
}
