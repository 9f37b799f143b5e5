import { Button, Group, SegmentedControl, Text, TextInput, UnstyledButton } from "@mantine/core";
import { queryOptions, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useId, useMemo, useState } from "react";
import { api, body } from "../api/client";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery } from "../api/queries";
import type { components } from "../api/schema";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { useTyping } from "../kit/typing";
import { exactly, toTheSecond } from "../lib/time";
import { type Names, nameOfTarget, operationsOf, type Target, targetsOf } from "./auditobjects";
import { identitiesQuery, nameOf } from "./scim";
import type { AdminProps } from "./search";

type Entry = components["schemas"]["AuditEntry"];

const PAGE = 100;
const MOST_CHOICES = 1000;
const DAY = 86_400_000;
const SPANS = [
  { value: "1h", label: "Hour", ms: 3_600_000 },
  { value: "24h", label: "Day", ms: DAY },
  { value: "7d", label: "Week", ms: 7 * DAY },
  { value: "all", label: "All", ms: 0 },
];

const operationsQuery = queryOptions({
  queryKey: ["audit", "operations"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: async () => operationsOf(await (await fetch("/openapi.json")).json()),
});

interface Choice {
  value: string;
  label?: string; // if it is not the value
}

/** Names of what there is, by id. */
function useNames(): Names {
  const clusters = useQuery(clustersQuery).data;
  const pools = useQuery(poolsQuery).data;
  const policies = useQuery(policiesQuery).data;
  return useMemo(
    () => ({
      cluster: new Map(clusters?.map((each) => [each.cluster_id, each.cluster_name ?? ""])),
      pool: new Map(pools?.map((each) => [each.instance_pool_id, each.instance_pool_name])),
      policy: new Map(policies?.map((each) => [each.policy_id, each.name ?? ""])),
    }),
    [clusters, pools, policies],
  );
}

/** Who changed what. The filters are those of the server, exact, and in the address. */
export default function Audit({ search, change }: AdminProps) {
  const span = SPANS.find((each) => each.value === search.range) ?? SPANS[3];
  const [now] = useState(Date.now); // of when the tab was opened: a range that moved would ask again and again
  const which = {
    ...(search.user ? { user_name: search.user } : {}),
    ...(search.operation ? { operation: search.operation } : {}),
    ...(search.object ? { object_id: search.object } : {}),
    ...(span?.ms ? { start_time: now - span.ms } : {}),
  };
  const asked = useInfiniteQuery({
    queryKey: ["audit", which],
    initialPageParam: "",
    queryFn: async ({ pageParam }) => {
      const query = { ...which, page_size: PAGE, ...(pageParam ? { page_token: pageParam } : {}) };
      return await body(api.GET("/api/2.0/audit-logs", { params: { query } }));
    },
    getNextPageParam: (last) => last.next_page_token || undefined,
  });
  const names = useNames();
  const operations = useQuery(operationsQuery).data ?? [];
  const entries = asked.data?.pages.flatMap((page) => page.entries ?? []);
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Group gap={6} role="search" aria-label="Audit log">
          <User text={search.user} change={(user) => change({ user })} />
          <Exact
            label="Operation"
            text={search.operation}
            change={(operation) => change({ operation })}
            choices={operations.map((value) => ({ value }))}
          />
          <Exact
            label="Object's id or name"
            text={search.object}
            change={(object) => change({ object })}
            choices={[...names.cluster, ...names.pool, ...names.policy].map(([value, label]) => ({ value, label }))}
          />
          <SegmentedControl
            size="xs"
            aria-label="Entries of the last"
            data={SPANS}
            value={span?.value}
            onChange={(range) => change({ range: range === "all" ? undefined : range })}
          />
        </Group>
        <Group gap={6}>
          <Button
            variant="default"
            leftSection={<Icon name="restart" size={14} />}
            loading={asked.isRefetching}
            onClick={() => void asked.refetch()}
          >
            Refresh
          </Button>
          <Button
            component="a"
            variant="default"
            leftSection={<Icon name="download" size={14} />}
            href={`/api/2.0/audit-logs/export?${new URLSearchParams(
              Object.entries(which).map(([name, value]): [string, string] => [name, String(value)]),
            )}`}
            download="audit-log.jsonl"
          >
            JSON
          </Button>
        </Group>
      </Group>
      {entries === undefined ? (
        <Reading query={asked} what="Reading the audit log" />
      ) : entries.length === 0 && !asked.hasNextPage ? (
        <Text className="nothing">No entries match.</Text>
      ) : (
        <ol className="audit">
          {entries.map((entry) => (
            <Line key={entry.id} entry={entry} names={names} only={change} />
          ))}
        </ol>
      )}
      {asked.hasNextPage && (
        <More what="Older entries" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </>
  );
}

function Line({ entry, names, only }: { entry: Entry; names: Names; only: AdminProps["change"] }) {
  const [open, setOpen] = useState(false);
  const targets = targetsOf(entry.objects);
  const fine = entry.status < 400;
  return (
    <li>
      <UnstyledButton className="entry-line" aria-expanded={open} onClick={() => setOpen(!open)}>
        <time dateTime={new Date(entry.time).toISOString()} title={exactly(entry.time)}>
          {toTheSecond(entry.time)}
        </time>
        <span>{entry.user_name || <span className="soft">nobody</span>}</span>
        <span className="mono">{entry.operation}</span>
        <span className="about soft">{targets.map((each) => nameOfTarget(each, names)).join(", ")}</span>
        <span className={fine ? "soft" : "word bad"} title={entry.error_code || undefined}>
          {fine ? "done" : entry.status}
        </span>
        <Icon name={open ? "up" : "down"} size={12} />
      </UnstyledButton>
      {open && (
        <>
          <Group gap={6} mx={8} mb={6}>
            {entry.user_name && (
              <Button variant="subtle" color="gray" onClick={() => only({ user: entry.user_name })}>
                Only this user
              </Button>
            )}
            <Button variant="subtle" color="gray" onClick={() => only({ operation: entry.operation })}>
              Only this operation
            </Button>
            {targets[0] && (
              <Button variant="subtle" color="gray" onClick={() => only({ object: targets[0]?.id })}>
                Only this object
              </Button>
            )}
            {targets.map((each) => (
              <Place key={each.field} target={each} names={names} />
            ))}
          </Group>
          <Scroller className="code" label="The entry as JSON">
            {JSON.stringify(entry, null, 2)}
          </Scroller>
        </>
      )}
    </li>
  );
}

/** The way to what the entry is about, if it is still there. */
function Place({ target, names }: { target: Target; names: Names }) {
  const { kind, id } = target;
  const name = nameOfTarget(target, names);
  if (kind === "run")
    return (
      <Link to="/jobs/runs/$id" params={{ id }}>
        Run {id}
      </Link>
    );
  if (kind === "user" || kind === "other" || !names[kind].has(id)) return null;
  const to = { cluster: "/compute/clusters/$id", pool: "/compute/pools/$id", policy: "/compute/policies/$id" } as const;
  return (
    <Link to={to[kind]} params={{ id }}>
      {name}
    </Link>
  );
}

interface ExactProps {
  label: string;
  text?: string;
  change: (text?: string) => void;
  choices: Choice[];
  typing?: (text: string) => void;
}

/** The filter by user, with those whose names have what is typed. */
function User({ text, change }: Pick<ExactProps, "text" | "change">) {
  const [part, setPart] = useState("");
  const found = useInfiniteQuery(identitiesQuery("Users", part)).data?.pages[0]?.Resources ?? [];
  const choices = found.map((each) => ({ value: nameOf(each), label: each.displayName }));
  return <Exact label="User" text={text} change={change} choices={choices} typing={setPart} />;
}

/** A filter that the server compares exactly, with what there is to choose. */
function Exact({ label, text, change, choices, typing }: ExactProps) {
  const [typed, setTyped] = useState(text ?? "");
  const list = useId();
  const later = useTyping((next) => {
    typing?.(next.trim());
    change(next.trim() || undefined);
  }, 300);
  useEffect(() => setTyped(text ?? ""), [text]);
  return (
    <>
      <datalist id={list}>
        {choices.slice(0, MOST_CHOICES).map(({ value, label: shown }) => (
          <option key={value} value={value} label={shown} />
        ))}
      </datalist>
      <TextInput
        list={list}
        aria-label={label}
        placeholder={label}
        spellCheck={false}
        autoComplete="off"
        w={190}
        value={typed}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          later(event.currentTarget.value);
        }}
      />
    </>
  );
}
