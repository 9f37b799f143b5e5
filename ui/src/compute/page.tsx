import { Button, Group, Tabs, Text, Title } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ComponentType, lazy, Suspense, useEffect } from "react";
import { Icon } from "../app/icons";
import { Waiting } from "../app/waiting";
import { Clusters } from "./clusters";
import type { ListTab } from "./search";

interface Shown {
  tab: ListTab | "all";
  label: string;
  Content: ComponentType;
  create?: { to: "/compute/create" | "/compute/pools/create" | "/compute/policies/create"; label: string };
}

const compute = { to: "/compute/create", label: "Create compute" } as const;
const SHOWN: Shown[] = [
  { tab: "all", label: "All-purpose", Content: Clusters, create: compute },
  { tab: "job", label: "Job", Content: Clusters, create: compute },
  {
    tab: "pools",
    label: "Pools",
    Content: lazy(() => import("../pools/list")),
    create: { to: "/compute/pools/create", label: "Create pool" },
  },
  {
    tab: "policies",
    label: "Policies",
    Content: lazy(() => import("../policies/list")),
    create: { to: "/compute/policies/create", label: "Create policy" },
  },
  { tab: "sql", label: "SQL warehouses", Content: Warehouses },
];

export function ComputePage() {
  const search = useSearch({ from: "/compute" });
  const navigate = useNavigate({ from: "/compute" });
  const shown = SHOWN.find((each) => each.tab === (search.tab ?? "all")) ?? (SHOWN[0] as Shown);
  useEffect(() => {
    document.title = `${shown.tab === "all" || shown.tab === "job" ? "Compute" : shown.label} - Brickyard`;
  }, [shown]);
  return (
    <div className="content list">
      <Group justify="space-between" gap={8}>
        <Title order={1} size="h3">
          Compute
        </Title>
        {shown.create && (
          <Button component={Link} to={shown.create.to} leftSection={<Icon name="plus" size={14} />}>
            {shown.create.label}
          </Button>
        )}
      </Group>
      <Tabs
        className="toptabs"
        value={shown.tab}
        onChange={(tab) => void navigate({ search: tab === "all" ? {} : { tab: tab as ListTab } })}
      >
        <Tabs.List aria-label="Kinds of compute">
          {SHOWN.map(({ tab, label }) => (
            <Tabs.Tab key={tab} value={tab}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
      </Tabs>
      <Suspense fallback={<Waiting what="Loading" />}>
        <shown.Content key={shown.tab} />
      </Suspense>
    </div>
  );
}

function Warehouses() {
  return (
    <Text className="nothing">
      There are no SQL warehouses here: SQL runs on clusters, in notebooks, over Spark Connect, or in a cluster's
      console.
    </Text>
  );
}
