import { Button, Group, SegmentedControl, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, body } from "../api/client";
import type { components } from "../api/schema";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { exactly, toTheSecond } from "../lib/time";
import type { AdminProps } from "./search";

type Entry = components["schemas"]["AuditEntry"];

const PAGE = 100;
const DAY = 86_400_000;
const SPANS = [
  { value: "1h", label: "Hour", ms: 3_600_000 },
  { value: "24h", label: "Day", ms: DAY },
  { value: "7d", label: "Week", ms: 7 * DAY },
  { value: "all", label: "All", ms: 0 },
];

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
  const entries = asked.data?.pages.flatMap((page) => page.entries ?? []);
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Group gap={6} role="search" aria-label="Audit log">
          <Exact label="User" text={search.user} change={(user) => change({ user })} />
          <Exact label="Operation" text={search.operation} change={(operation) => change({ operation })} />
          <Exact label="Object's id or name" text={search.object} change={(object) => change({ object })} />
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
            <Line key={entry.id} entry={entry} only={change} />
          ))}
        </ol>
      )}
      {asked.hasNextPage && (
        <More what="Older entries" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </>
  );
}

function Line({ entry, only }: { entry: Entry; only: AdminProps["change"] }) {
  const [open, setOpen] = useState(false);
  const fine = entry.status < 400;
  return (
    <li>
      <UnstyledButton className="entry-line" aria-expanded={open} onClick={() => setOpen(!open)}>
        <time dateTime={new Date(entry.time).toISOString()} title={exactly(entry.time)}>
          {toTheSecond(entry.time)}
        </time>
        <span>{entry.user_name || <span className="soft">nobody</span>}</span>
        <span className="mono">{entry.operation}</span>
        <span className="about soft">{Object.values(entry.objects ?? {}).join(", ")}</span>
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
          </Group>
          <Scroller className="code" label="The entry as JSON">
            {JSON.stringify(entry, null, 2)}
          </Scroller>
        </>
      )}
    </li>
  );
}

/** A filter that the server compares exactly. */
function Exact({ label, text, change }: { label: string; text?: string; change: (text?: string) => void }) {
  const [typed, setTyped] = useState(text ?? "");
  const later = useDebouncedCallback((next: string) => change(next.trim() || undefined), 300);
  useEffect(() => setTyped(text ?? ""), [text]);
  return (
    <TextInput
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
  );
}
