import "../cluster/cluster.css";
import "./admin.css";
import { Loader, Tabs, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ComponentType, lazy, Suspense, useEffect } from "react";
import { meQuery } from "../access/rights";
import { offered } from "../api/session";
import { TabList } from "../app/tablist";
import { Trouble } from "../app/trouble";
import { Waiting } from "../app/waiting";
import type { AdminSearch, AdminTab } from "./search";

export interface AdminProps {
  search: AdminSearch;
  /** Changes what the tab shows, in the page's address. */
  change: (changed: Partial<AdminSearch>) => void;
}

/** `of`: what the workspace has to have for the tab. */
const KNOWN: { tab: AdminTab; label: string; of?: string; Content: ComponentType<AdminProps> }[] = [
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
  { tab: "machine", label: "Nodes and room", of: "/api/2.1/machine", Content: lazy(() => import("./machine")) },
];

export function AdminPage() {
  const search = useSearch({ from: "/admin" });
  const navigate = useNavigate({ from: "/admin" });
  const me = useQuery(meQuery);
  useEffect(() => {
    document.title = "Admin - Brickyard";
  }, []);
  const change = (changed: Partial<AdminSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const tabs = KNOWN.filter((each) => each.of === undefined || offered(each.of));
  const shown = tabs.find((each) => each.tab === (search.tab ?? "users")) ?? tabs[0];
  return (
    <div className="content admin">
      <Title order={1} size="h3">
        Admin
      </Title>
      {me.data === undefined ? (
        me.isError ? (
          <Trouble error={me.error} retry={() => void me.refetch()} />
        ) : (
          <Waiting what="Reading who you are" />
        )
      ) : !me.data.groups.has("admins") ? (
        <Text className="nothing">
          Only administrators of this workspace see these pages. Your own tokens are in your{" "}
          <Link to="/settings">settings</Link>.
        </Text>
      ) : (
        <Tabs
          value={shown?.tab}
          onChange={(tab) => void navigate({ search: tab === "users" ? {} : { tab: tab as AdminTab } })}
          keepMounted={false}
          className="tabs"
        >
          <TabList label="Pages for administrators" chosen={shown?.tab}>
            {tabs.map(({ tab, label }) => (
              <Tabs.Tab key={tab} value={tab}>
                {label}
              </Tabs.Tab>
            ))}
          </TabList>
          {shown && (
            <Tabs.Panel value={shown.tab} className="tab">
              <Suspense fallback={<Loader size="xs" m="md" role="status" aria-label="Loading" />}>
                <shown.Content search={search} change={change} />
              </Suspense>
            </Tabs.Panel>
          )}
        </Tabs>
      )}
    </div>
  );
}
