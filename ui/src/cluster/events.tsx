import {
  Button,
  Checkbox,
  Group,
  Popover,
  ScrollArea,
  SegmentedControl,
  Stack,
  Text,
  UnstyledButton,
} from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, body } from "../api/client";
import { POLL_MS } from "../api/live";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { download } from "../lib/files";
import { count } from "../lib/sizes";
import { exactly, toTheSecond } from "../lib/time";
import { type ClusterEvent, describe, lookOf } from "./eventwords";
import type { TabProps } from "./tab";

const PAGE = 100;
const TYPES = [
  "CREATING",
  "STARTING",
  "RUNNING",
  "RESTARTING",
  "TERMINATING",
  "EDITED",
  "RESIZING",
  "UPSIZE_COMPLETED",
  "AUTOSCALING_FAILED",
  "ADD_NODES_FAILED",
  "NODES_LOST",
  "DRIVER_HEALTHY",
  "DRIVER_NOT_RESPONDING",
  "DRIVER_UNAVAILABLE",
  "SPARK_EXCEPTION",
  "INIT_SCRIPTS_STARTED",
  "INIT_SCRIPTS_FINISHED",
  "PINNED",
  "UNPINNED",
] as const;
type EventType = ClusterEvent["type"];

const DAY = 86_400_000;
const SPANS: { value: string; label: string; ms: number }[] = [
  { value: "all", label: "All", ms: 0 },
  { value: "1h", label: "Hour", ms: 3_600_000 },
  { value: "24h", label: "Day", ms: DAY },
  { value: "7d", label: "Week", ms: 7 * DAY },
];

export default function Events({ cluster, live, search, change }: TabProps) {
  const id = cluster.cluster_id;
  const span = SPANS.find((each) => each.value === search.range) ?? SPANS[0];
  const [now] = useState(Date.now); // of when the tab was opened: a range that moved would ask again and again
  const asked = useInfiniteQuery({
    queryKey: ["cluster", id, "events", search.type, span?.value],
    initialPageParam: "",
    refetchInterval: live ? false : POLL_MS,
    queryFn: async ({ pageParam }) =>
      await body(
        api.POST("/api/2.1/clusters/events", {
          body: {
            cluster_id: id,
            page_size: PAGE,
            ...(pageParam ? { page_token: pageParam } : {}),
            ...(search.type ? { event_types: search.type as EventType[] } : {}),
            ...(span?.ms ? { start_time: now - span.ms } : {}),
          },
        }),
      ),
    getNextPageParam: (last) => last.next_page_token || undefined,
  });
  const events = asked.data?.pages.flatMap((page) => page.events ?? []);
  const [still, setStill] = useState<ClusterEvent[] | null>(null); // what is under the pointer does not move
  const shown = still === null || events === undefined ? events : held(still, events);
  const fresh = (events?.length ?? 0) - (shown?.length ?? 0);
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Group gap={6} role="search" aria-label="Events">
          <Types chosen={search.type ?? []} change={(type) => change({ type: type.length > 0 ? type : undefined })} />
          <SegmentedControl
            size="xs"
            aria-label="Events of the last"
            data={SPANS}
            value={span?.value}
            onChange={(range) => change({ range: range === "all" ? undefined : range })}
          />
        </Group>
        <Group gap={6}>
          {fresh > 0 && (
            <Button variant="light" onClick={() => setStill(null)}>
              {count(fresh, "new event")}
            </Button>
          )}
          <Button
            variant="default"
            leftSection={<Icon name="download" size={14} />}
            disabled={!events?.length}
            onClick={() => download(`${id}-events.json`, [JSON.stringify(events ?? [], null, 2)], "application/json")}
          >
            JSON
          </Button>
        </Group>
      </Group>
      {shown === undefined ? (
        <Reading query={asked} what="Reading the events" />
      ) : shown.length === 0 ? (
        <Text className="nothing">{search.type || span?.ms ? "No events match." : "No events yet."}</Text>
      ) : (
        <ol className="events" onPointerEnter={() => setStill(shown)} onPointerLeave={() => setStill(null)}>
          {shown.map((event) => (
            <Event key={keyOf(event)} event={event} />
          ))}
        </ol>
      )}
      {shown !== undefined && asked.hasNextPage && (
        <More what="Older events" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </>
  );
}

const keyOf = (event: ClusterEvent) => `${event.timestamp} ${event.type} ${describe(event)}`;

/** Without the events that are newer than the first of those shown; older ones may come below. */
function held(still: ClusterEvent[], now: ClusterEvent[]): ClusterEvent[] {
  const [first] = still;
  const at = first === undefined ? -1 : now.findIndex((each) => keyOf(each) === keyOf(first));
  return at < 0 ? now : now.slice(at);
}

function Event({ event }: { event: ClusterEvent }) {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <UnstyledButton className="event" aria-expanded={open} onClick={() => setOpen(!open)}>
        <time dateTime={new Date(event.timestamp).toISOString()} title={exactly(event.timestamp)}>
          {toTheSecond(event.timestamp)}
        </time>
        <span className={`word ${lookOf(event)}`}>{event.type}</span>
        <span className="what">{describe(event)}</span>
        <Icon name={open ? "up" : "down"} size={12} />
      </UnstyledButton>
      {open && (
        <Scroller className="code" label="The event as JSON">
          {JSON.stringify(event, null, 2)}
        </Scroller>
      )}
    </li>
  );
}

function Types({ chosen, change }: { chosen: string[]; change: (chosen: string[]) => void }) {
  const toggle = (type: string) =>
    change(chosen.includes(type) ? chosen.filter((each) => each !== type) : [...chosen, type]);
  return (
    <Popover position="bottom-start" shadow="md" withinPortal trapFocus>
      <Popover.Target>
        <Button variant={chosen.length > 0 ? "light" : "default"} rightSection={<Icon name="down" size={12} />}>
          {chosen.length > 2 ? `${chosen.length} types` : chosen.length > 0 ? `Type: ${chosen.join(", ")}` : "Type"}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Types of events">
        <ScrollArea.Autosize mah={320}>
          <Stack gap={8}>
            {TYPES.map((type) => (
              <Checkbox key={type} label={type} checked={chosen.includes(type)} onChange={() => toggle(type)} />
            ))}
            {chosen.length > 0 && (
              <Button variant="subtle" color="gray" onClick={() => change([])}>
                All types
              </Button>
            )}
          </Stack>
        </ScrollArea.Autosize>
      </Popover.Dropdown>
    </Popover>
  );
}
