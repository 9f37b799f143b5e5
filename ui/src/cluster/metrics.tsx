import { Button, Group, NativeSelect, SegmentedControl, Text } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, body } from "../api/client";
import { Reading } from "../kit/reading";
import { exactly, useNow } from "../lib/time";
import { ChartView, type Mark } from "./chart";
import { charts, EACH, namesOf } from "./charts";
import { lifeOf } from "./plotting";
import type { TabProps } from "./tab";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const RANGES: { value: string; label: string; ms: number }[] = [
  { value: "15m", label: "15 min", ms: 15 * MINUTE },
  { value: "1h", label: "1 h", ms: HOUR },
  { value: "6h", label: "6 h", ms: 6 * HOUR },
  { value: "24h", label: "24 h", ms: 24 * HOUR },
  { value: "7d", label: "7 d", ms: 7 * 24 * HOUR },
  { value: "30d", label: "30 d", ms: 30 * 24 * HOUR },
];
/** From the cluster's last start to its end, or until now: what is shown first of one that has lived no longer than an hour. */
const LIFE = { value: "life", label: "Last run" };
const SAMPLE_MS = 5000;
const SLOW_MS = MINUTE;
const MARKED = { RUNNING: "up", RESIZING: "resize", RESTARTING: "restart", TERMINATING: "end" } as const;

export default function Metrics({ cluster, search, change }: TabProps) {
  const id = cluster.cluster_id;
  const ended = cluster.state === "TERMINATED" ? (cluster.terminated_time ?? 0) : 0;
  const started = cluster.start_time ?? 0;
  const now = useNow(SAMPLE_MS);
  const life = lifeOf(started, ended, now);
  const range = RANGES.find((each) => each.value === search.range);
  const whole = range === undefined && started > 0 && (search.range === LIFE.value || life[1] - life[0] <= HOUR);
  const { label, ms } = range ?? { ...(RANGES[1] as (typeof RANGES)[number]), ...(whole ? LIFE : {}) };
  const chosen = search.from !== undefined && search.to !== undefined;
  const every = ms <= HOUR ? SAMPLE_MS : SLOW_MS;
  const end = ended ? ended + 2 * SAMPLE_MS : Math.ceil(now / every) * every;
  const [from, to] = chosen ? [search.from as number, search.to as number] : whole ? life : [end - ms, end];
  const asked = useQuery({
    queryKey: ["metrics", id, from, to],
    gcTime: MINUTE,
    placeholderData: keepPreviousData,
    queryFn: () =>
      body(
        api.GET("/api/2.1/clusters/metrics", {
          params: { query: { cluster_id: id, start_time: from, end_time: to } },
        }),
      ),
  });
  const marks = useMarks(id);
  const data = asked.data;
  const node =
    search.node === EACH || data?.nodes.some((each) => each.instance_id === search.node) ? (search.node ?? "") : "";
  const names = namesOf(data?.nodes ?? []);
  const drawn = useMemo(() => (data === undefined ? undefined : charts(data, node)), [data, node]);
  const times = useMemo(() => {
    if (data === undefined) return [];
    const steps = Math.ceil((data.end_time - data.start_time) / data.step_ms);
    return Array.from({ length: steps }, (_, at) => (data.start_time + at * data.step_ms) / 1000);
  }, [data]);
  if (data === undefined || drawn === undefined) return <Reading query={asked} what="Reading the metrics" />;
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Group gap={6}>
          <SegmentedControl
            size="xs"
            aria-label="Range of time"
            data={started > 0 ? [LIFE, ...RANGES] : RANGES}
            value={chosen ? "" : (range?.value ?? (whole ? LIFE.value : "1h"))}
            onChange={(value) => change({ range: value, from: undefined, to: undefined })}
          />
          {chosen && (
            <Button variant="default" onClick={() => change({ from: undefined, to: undefined })}>
              Back to {label}
            </Button>
          )}
        </Group>
        <NativeSelect
          size="xs"
          aria-label="Node"
          value={node}
          data={[
            { value: "", label: `All nodes together (${data.nodes.length})` },
            { value: EACH, label: "Each node" },
            ...data.nodes.map((each) => ({
              value: each.instance_id,
              label: `${names.get(each.instance_id)} (${each.instance_id})`,
            })),
          ]}
          onChange={(event) => change({ node: event.currentTarget.value || undefined })}
        />
      </Group>
      <Text size="sm" c="dimmed">
        {exactly(from)} to {exactly(to)}. {ended ? "The cluster is terminated. Its metrics are kept for 30 days. " : ""}
        Drag over a chart to zoom in.
        {data.nodes.some((each) => each.simulated) ? " The simulated provider makes up these numbers." : ""}
      </Text>
      {drawn.shown.length === 0 ? (
        <Text className="nothing">Nothing was measured in this range: no node of the cluster ran.</Text>
      ) : (
        <div className="charts">
          {drawn.shown.map((chart) => (
            <ChartView
              key={chart.title}
              chart={chart}
              times={times}
              from={data.start_time}
              to={data.end_time}
              marks={marks}
              choose={(first, last) => change({ from: first, to: last })}
            />
          ))}
        </div>
      )}
      {drawn.shown.length > 0 && drawn.missing.length > 0 && (
        <Text size="sm" c="dimmed">
          Not available: {drawn.missing.join(", ")}.
        </Text>
      )}
    </>
  );
}

/** When the cluster came up, changed its size and ended. */
function useMarks(id: string): Mark[] {
  const found = useQuery({
    queryKey: ["cluster", id, "marks"],
    queryFn: async () => {
      const event_types = Object.keys(MARKED) as (keyof typeof MARKED)[];
      const asked = api.POST("/api/2.1/clusters/events", { body: { cluster_id: id, page_size: 200, event_types } });
      return ((await body(asked)).events ?? []).map((each) => ({
        at: each.timestamp,
        what: MARKED[each.type as keyof typeof MARKED],
      }));
    },
  });
  return found.data ?? [];
}
