import { ActionIcon, Button, Checkbox, Group, Popover, ScrollArea, Stack, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Cluster } from "../api/client";
import { policiesQuery, poolsQuery } from "../api/offers";
import { Icon } from "../app/icons";
import { accessOf, nameOf, tagsOf } from "./facts";
import type { Facet, ListSearch } from "./search";

type Change = (changed: Partial<ListSearch>) => void;

const FACETS: { facet: Facet; label: string; of: (cluster: Cluster) => string[] }[] = [
  { facet: "state", label: "State", of: (cluster) => [cluster.state ?? ""] },
  { facet: "access", label: "Access mode", of: (cluster) => [accessOf(cluster)] },
  { facet: "runtime", label: "Runtime", of: (cluster) => [cluster.spark_version ?? ""] },
  { facet: "creator", label: "Creator", of: (cluster) => [cluster.creator_user_name ?? ""] },
  { facet: "policy", label: "Policy", of: (cluster) => [cluster.policy_id ?? ""] },
  { facet: "pool", label: "Pool", of: (cluster) => [cluster.instance_pool_id ?? ""] },
  { facet: "tag", label: "Tag", of: tagsOf },
];

/** Whether the list shows a cluster. */
export function shows(search: ListSearch, me: string, isActive: (cluster: Cluster) => boolean) {
  const text = (search.q ?? "").toLowerCase();
  const wanted = FACETS.filter(({ facet }) => search[facet] !== undefined);
  return (cluster: Cluster) =>
    (text === "" || nameOf(cluster).toLowerCase().includes(text) || cluster.cluster_id.includes(text)) &&
    (!search.mine || cluster.creator_user_name === me) &&
    (!search.active || isActive(cluster)) &&
    wanted.every(({ facet, of }) => of(cluster).some((value) => search[facet]?.includes(value)));
}

export function Filters({ search, change, clusters }: { search: ListSearch; change: Change; clusters: Cluster[] }) {
  const { data: policies } = useQuery(policiesQuery);
  const { data: pools } = useQuery(poolsQuery);
  const names = new Map([
    ...(policies ?? []).map((each) => [each.policy_id, each.name] as const),
    ...(pools ?? []).map((each) => [each.instance_pool_id, each.instance_pool_name] as const),
  ]);
  return (
    <Group gap={6} wrap="wrap" role="search" aria-label="Clusters">
      <Search text={search.q ?? ""} change={(q) => change({ q: q || undefined })} />
      <Toggle on={search.mine} label="Mine" change={(mine) => change({ mine })} />
      <Toggle on={search.active} label="Active" change={(active) => change({ active })} />
      {FACETS.map((each) => (
        <Chip key={each.facet} {...each} search={search} change={change} clusters={clusters} names={names} />
      ))}
    </Group>
  );
}

/** The search field of a list. */
export function Search({ text, change }: { text: string; change: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  const later = useDebouncedCallback(change, 150);
  useEffect(() => setTyped(text), [text]);
  return (
    <TextInput
      data-search
      aria-label="Search by name or id"
      placeholder="Search by name or id"
      leftSection={<Icon name="search" />}
      value={typed}
      w={240}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        later(event.currentTarget.value);
      }}
      rightSection={
        typed !== "" && (
          <ActionIcon
            size="xs"
            variant="subtle"
            color="gray"
            aria-label="Clear the search"
            onClick={() => {
              setTyped("");
              change("");
            }}
          >
            <Icon name="close" size={12} />
          </ActionIcon>
        )
      }
    />
  );
}

function Toggle({ on, label, change }: { on: true | undefined; label: string; change: (on?: true) => void }) {
  return (
    <Button variant={on ? "light" : "default"} aria-pressed={on ?? false} onClick={() => change(on ? undefined : true)}>
      {label}
    </Button>
  );
}

function Chip({
  facet,
  label,
  of,
  search,
  change,
  clusters,
  names,
}: {
  facet: Facet;
  label: string;
  of: (cluster: Cluster) => string[];
  search: ListSearch;
  change: Change;
  clusters: Cluster[];
  names: Map<string, string>; // of what is known by an id
}) {
  const [opened, setOpened] = useState(false);
  const chosen = search[facet] ?? [];
  const nameFor = (value: string) => names.get(value) ?? value;
  const counts = new Map<string, number>();
  if (opened)
    for (const cluster of clusters)
      for (const value of of(cluster)) if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
  for (const value of chosen) if (!counts.has(value)) counts.set(value, 0);
  const toggle = (value: string) => {
    const now = chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value];
    change({ [facet]: now.length > 0 ? now : undefined });
  };
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-start" shadow="md" withinPortal trapFocus>
      <Popover.Target>
        <Button
          variant={chosen.length > 0 ? "light" : "default"}
          onClick={() => setOpened(!opened)}
          rightSection={<Icon name="down" size={12} />}
        >
          {chosen.length > 0 ? `${label}: ${chosen.map(nameFor).join(", ")}` : label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label={label}>
        <ScrollArea.Autosize mah={280} miw={200}>
          <Stack gap={8}>
            {[...counts]
              .sort(([one], [other]) => nameFor(one).localeCompare(nameFor(other)))
              .map(([value, count]) => (
                <Checkbox
                  key={value}
                  label={`${nameFor(value)} (${count})`}
                  checked={chosen.includes(value)}
                  onChange={() => toggle(value)}
                />
              ))}
            {counts.size === 0 && <span>No cluster has one.</span>}
          </Stack>
        </ScrollArea.Autosize>
        {chosen.length > 0 && (
          <Tooltip label={`Show clusters of every ${label.toLowerCase()}`}>
            <Button mt="xs" variant="subtle" color="gray" onClick={() => change({ [facet]: undefined })}>
              Clear
            </Button>
          </Tooltip>
        )}
      </Popover.Dropdown>
    </Popover>
  );
}
