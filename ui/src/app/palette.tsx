import { Modal, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { meQuery } from "../access/rights";
import { ADMIN_TABS } from "../admin/search";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery } from "../api/queries";
import { nameOf } from "../clusters/facts";
import { palette, wanted } from "../kit/keys";
import { useValue } from "../lib/value";

const MOST = 8;

export function Palette({ made }: { made: boolean }) {
  const opened = useValue(palette) && made;
  const close = () => palette.set(false);
  return (
    <Modal opened={opened} onClose={close} title="Go to" centered transitionProps={{ duration: 0 }}>
      {opened && <Places close={close} />}
    </Modal>
  );
}

function Places({ close }: { close: () => void }) {
  const text = useValue(wanted);
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const { data = [] } = useQuery(clustersQuery);
  const pools = useQuery(poolsQuery).data ?? [];
  const policies = useQuery(policiesQuery).data ?? [];
  const me = useQuery(meQuery).data;
  const lower = text.toLowerCase();
  const places = [
    { id: "all", name: "Compute: all-purpose clusters", go: () => navigate({ to: "/compute", search: {} }) },
    { id: "jobs", name: "Compute: job clusters", go: () => navigate({ to: "/compute", search: { tab: "job" } }) },
    { id: "pools", name: "Compute: pools", go: () => navigate({ to: "/compute", search: { tab: "pools" } }) },
    { id: "policies", name: "Compute: policies", go: () => navigate({ to: "/compute", search: { tab: "policies" } }) },
    { id: "runs", name: "Runs", go: () => navigate({ to: "/jobs/runs", search: {} }) },
    { id: "schedules", name: "Schedules and snapshots", go: () => navigate({ to: "/schedules", search: {} }) },
    { id: "files", name: "Files", go: () => navigate({ to: "/files", search: {} }) },
    { id: "spend", name: "Spend", go: () => navigate({ to: "/spend", search: {} }) },
    { id: "settings", name: "Settings: your tokens", go: () => navigate({ to: "/settings" }) },
    ...ADMIN_TABS.filter(() => me?.groups.has("admins")).map((tab) => ({
      id: `admin ${tab}`,
      name: `Admin: ${tab.replace("-", " ")}`,
      go: () => navigate({ to: "/admin", search: tab === "users" ? {} : { tab } }),
    })),
    ...data.map((each) => ({
      id: each.cluster_id,
      name: nameOf(each),
      go: () => navigate({ to: "/compute/clusters/$id", params: { id: each.cluster_id } }),
    })),
    ...pools.map((each) => ({
      id: each.instance_pool_id,
      name: `Pool: ${each.instance_pool_name}`,
      go: () => navigate({ to: "/compute/pools/$id", params: { id: each.instance_pool_id } }),
    })),
    ...policies.map((each) => ({
      id: each.policy_id,
      name: `Policy: ${each.name}`,
      go: () => navigate({ to: "/compute/policies/$id", params: { id: each.policy_id } }),
    })),
  ];
  const found = places
    .filter((each) => each.name.toLowerCase().includes(lower) || each.id.toLowerCase().includes(lower))
    .slice(0, MOST);
  const chosen = Math.min(at, found.length - 1);
  const go = (index: number) => {
    close();
    void found[index]?.go();
  };
  return (
    <Stack gap={4}>
      <TextInput
        data-autofocus
        aria-label="Name of a cluster, pool, policy or page"
        placeholder="Name of a cluster, pool, policy or page"
        value={text}
        onChange={(event) => {
          wanted.set(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
          else if (event.key === "Enter") go(chosen);
          else return;
          event.preventDefault();
        }}
      />
      {found.map((each, index) => (
        <UnstyledButton
          key={each.id}
          className="place"
          data-chosen={index === chosen || undefined}
          onClick={() => go(index)}
        >
          {each.name}
        </UnstyledButton>
      ))}
      {found.length === 0 && <Text c="dimmed">No matches.</Text>}
    </Stack>
  );
}
