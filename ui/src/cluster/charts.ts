import type { components } from "../api/schema";

export type Range = components["schemas"]["MetricsRange"];
type Values = (number | null)[];

/** A line of a chart. `limit`: what there is to use, drawn dashed. */
export interface Line {
  label: string;
  values: Values;
  limit?: boolean;
}

export interface Chart {
  title: string;
  unit: string;
  lines: Line[];
}

interface Wanted {
  title: string;
  unit: string;
  scale?: number; // from what is measured to the unit
  lines: { label: string; metric: string }[];
  limit?: "cores" | "memory_mb";
}

const GIB = 1 / (1 << 30);
const MIB = 1 / (1 << 20);

const WANTED: Wanted[] = [
  { title: "CPU", unit: "cores", lines: [{ label: "used", metric: "cpu_cores" }], limit: "cores" },
  { title: "Memory", unit: "GiB", scale: GIB, lines: [{ label: "used", metric: "memory_bytes" }], limit: "memory_mb" },
  {
    title: "Network between nodes",
    unit: "MiB/s",
    scale: MIB,
    lines: [
      { label: "in", metric: "network_in_bytes_per_s" },
      { label: "out", metric: "network_out_bytes_per_s" },
    ],
  },
  {
    title: "Disk traffic",
    unit: "MiB/s",
    scale: MIB,
    lines: [
      { label: "read", metric: "disk_read_bytes_per_s" },
      { label: "write", metric: "disk_write_bytes_per_s" },
    ],
  },
  { title: "Disk used", unit: "GiB", scale: GIB, lines: [{ label: "used", metric: "disk_bytes" }] },
  { title: "Executors", unit: "number", lines: [{ label: "executors", metric: "executors" }] },
  {
    title: "Tasks",
    unit: "number",
    lines: [
      { label: "running", metric: "tasks_active" },
      { label: "waiting", metric: "tasks_waiting" },
    ],
  },
  { title: "Tasks done", unit: "per second", lines: [{ label: "done", metric: "tasks_done_per_s" }] },
  { title: "Driver's heap", unit: "GiB", scale: GIB, lines: [{ label: "used", metric: "heap_bytes" }] },
  {
    title: "Garbage collection",
    unit: "% of time",
    scale: 100,
    lines: [
      { label: "driver", metric: "gc_fraction" },
      { label: "executors", metric: "executor_gc_fraction" },
    ],
  },
  { title: "GPU", unit: "%", scale: 100, lines: [{ label: "busy", metric: "gpu_fraction" }] },
  { title: "GPU memory", unit: "GiB", scale: GIB, lines: [{ label: "used", metric: "gpu_memory_bytes" }] },
  { title: "GPU temperature", unit: "°C", lines: [{ label: "hottest", metric: "gpu_temperature_c" }] },
  { title: "GPU power", unit: "W", lines: [{ label: "drawn", metric: "gpu_power_w" }] },
];

/** Metrics whose nodes are compared; all others are added up. */
const MEAN = new Set(["gpu_fraction"]);
const HIGHEST = new Set(["gpu_temperature_c"]);

/** The charts that have something to show, and the titles of those that have not. What is missing is null, never zero. */
export function charts(range: Range, node: string): { shown: Chart[]; missing: string[] } {
  const nodes = range.nodes.filter((each) => node === "" || each.instance_id === node);
  const shown: Chart[] = [];
  const missing: string[] = [];
  for (const { title, unit, scale = 1, lines, limit } of WANTED) {
    const drawn: Line[] = [];
    for (const { label, metric } of lines) {
      const of = nodes.map((each) => each.metrics[metric]).filter((each): each is Values => each !== undefined);
      const values = together(of, metric).map((each) => (each === null ? null : each * scale));
      if (values.some((each) => each !== null)) drawn.push({ label, values });
    }
    if (drawn.length === 0) {
      missing.push(title);
      continue;
    }
    if (limit) drawn.push({ label: "available", values: available(nodes, lines[0]?.metric ?? "", limit), limit: true });
    shown.push({ title, unit, lines: drawn });
  }
  return { shown, missing };
}

function together(of: Values[], metric: string): Values {
  const length = Math.max(0, ...of.map((each) => each.length));
  return Array.from({ length }, (_, at) => {
    const there = of.map((each) => each[at]).filter((each): each is number => each != null);
    if (there.length === 0) return null;
    if (HIGHEST.has(metric)) return Math.max(...there);
    const sum = there.reduce((one, other) => one + other, 0);
    return MEAN.has(metric) ? sum / there.length : sum;
  });
}

/** What the nodes have that were there at each step. */
function available(nodes: Range["nodes"], metric: string, of: "cores" | "memory_mb"): Values {
  const sizes = nodes.map((each) =>
    (each.metrics[metric] ?? []).map((value) =>
      value === null ? null : of === "cores" ? each.cores : each.memory_mb / 1024,
    ),
  );
  return together(sizes, "");
}
