import type { components } from "../api/schema";

export type Range = components["schemas"]["MetricsRange"];
type Values = (number | null)[];

/** A line of a chart. `limit`: what there is to use, drawn dashed. `tint`: which of the colours. */
export interface Line {
  label: string;
  values: Values;
  tint: number;
  limit?: boolean;
}

export interface Chart {
  title: string;
  unit: string;
  lines: Line[];
  more?: string; // what is left out
}

/** In place of a node: a line for each of them. */
export const EACH = "each";
/** Nodes that a chart can have lines of. */
const MOST_NODES = 8;

interface Wanted {
  title: string;
  unit: string | Steps; // or one that fits the values
  scale?: number; // from what is measured to the unit
  lines: { label: string; metric: string }[];
  limit?: "cores" | "memory_mb";
}

/** Units of one quantity, the smallest first, each with what it is times the first. */
type Steps = readonly (readonly [unit: string, size: number])[];

const KIB = 1 << 10;
const BYTES: Steps = [
  ["B", 1],
  ["KiB", KIB],
  ["MiB", KIB ** 2],
  ["GiB", KIB ** 3],
  ["TiB", KIB ** 4],
];
const BYTES_PER_S: Steps = BYTES.map(([unit, size]) => [`${unit}/s`, size] as const);

const WANTED: Wanted[] = [
  { title: "CPU", unit: "cores", lines: [{ label: "used", metric: "cpu_cores" }], limit: "cores" },
  { title: "Memory", unit: BYTES, lines: [{ label: "used", metric: "memory_bytes" }], limit: "memory_mb" },
  {
    title: "Network between nodes",
    unit: BYTES_PER_S,
    lines: [
      { label: "in", metric: "network_in_bytes_per_s" },
      { label: "out", metric: "network_out_bytes_per_s" },
    ],
  },
  {
    title: "Disk traffic",
    unit: BYTES_PER_S,
    lines: [
      { label: "read", metric: "disk_read_bytes_per_s" },
      { label: "write", metric: "disk_write_bytes_per_s" },
    ],
  },
  { title: "Disk used", unit: BYTES, lines: [{ label: "used", metric: "disk_bytes" }] },
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
  { title: "Driver's heap", unit: BYTES, lines: [{ label: "used", metric: "heap_bytes" }] },
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
  { title: "GPU memory", unit: BYTES, lines: [{ label: "used", metric: "gpu_memory_bytes" }] },
  { title: "GPU temperature", unit: "°C", lines: [{ label: "hottest", metric: "gpu_temperature_c" }] },
  { title: "GPU power", unit: "W", lines: [{ label: "drawn", metric: "gpu_power_w" }] },
];

/** Metrics whose nodes are compared; all others are added up. */
const MEAN = new Set(["gpu_fraction"]);
const HIGHEST = new Set(["gpu_temperature_c"]);

/** The charts that have something to show, and the titles of those that have not. What is missing is null, never zero.
 * `which`: one node, all of them together (""), or EACH. */
export function charts(range: Range, which: string): { shown: Chart[]; missing: string[] } {
  const nodes = range.nodes.filter((each) => which === "" || which === EACH || each.instance_id === which);
  const names = namesOf(range.nodes);
  const shown: Chart[] = [];
  const missing: string[] = [];
  for (const wanted of WANTED) {
    const { title, unit, scale = 1, limit } = wanted;
    const [drawn, left] = which === EACH ? eachNode(wanted, nodes, names) : [allNodes(wanted, nodes), 0];
    if (drawn.length === 0) {
      missing.push(title);
      continue;
    }
    if (limit && which !== EACH)
      drawn.push({
        label: "available",
        values: available(nodes, wanted.lines[0]?.metric ?? "", limit),
        tint: 0,
        limit: true,
      });
    const [name, size] = typeof unit === "string" ? [unit, 1] : fitting(unit, drawn);
    const lines = drawn.map((line) => ({ ...line, values: scaled(line.values, scale / size) }));
    shown.push({ title, unit: name, lines, ...(left > 0 ? { more: `${left} more nodes use less` } : {}) });
  }
  return { shown, missing };
}

/** What all nodes together use. */
function allNodes({ lines }: Wanted, nodes: Range["nodes"]): Line[] {
  return lines.flatMap(({ label, metric }, tint) => {
    const of = nodes.map((each) => each.metrics[metric]).filter((each): each is Values => each !== undefined);
    const values = together(of, metric);
    return values.some(known) ? [{ label, values, tint }] : [];
  });
}

/** What each node uses, those first that use most, and how many there is no room for. */
function eachNode({ lines }: Wanted, nodes: Range["nodes"], names: Map<string, string>): [Line[], number] {
  const using = nodes
    .map((node, tint) => ({
      node,
      tint,
      most: Math.max(...lines.map((each) => highest(node.metrics[each.metric] ?? []))),
    }))
    .filter((each) => each.most >= 0)
    .sort((one, other) => other.most - one.most);
  const found = using
    .slice(0, MOST_NODES)
    .sort((one, other) => one.tint - other.tint)
    .flatMap(({ node, tint }) =>
      lines.flatMap(({ label, metric }, at): Line[] => {
        const values = node.metrics[metric] ?? [];
        if (!values.some(known)) return [];
        const name = names.get(node.instance_id) ?? node.instance_id;
        return [{ label: lines.length > 1 ? `${name} ${label}` : name, values, tint: tint * lines.length + at }];
      }),
    );
  return [found, Math.max(0, using.length - MOST_NODES)];
}

/** Short names of nodes: "driver", "worker 2". */
export function namesOf(nodes: { instance_id: string; role: string }[]): Map<string, string> {
  const many = new Map<string, number>();
  for (const { role } of nodes) many.set(role, (many.get(role) ?? 0) + 1);
  const seen = new Map<string, number>();
  return new Map(
    nodes.map(({ instance_id, role }) => {
      const number = (seen.get(role) ?? 0) + 1;
      seen.set(role, number);
      const word = role === "single" ? "driver" : role;
      return [instance_id, role === "worker" || (many.get(role) ?? 0) > 1 ? `${word} ${number}` : word];
    }),
  );
}

const known = (value: number | null): value is number => value !== null;
const highest = (values: Values) => values.reduce<number>((most, each) => Math.max(most, each ?? -1), -1);
const scaled = (values: Values, by: number) =>
  by === 1 ? values : values.map((each) => (each === null ? null : each * by));

/** The largest unit in which the highest value is at least one. */
function fitting(steps: Steps, lines: Line[]): readonly [string, number] {
  const most = Math.max(...lines.map((each) => highest(each.values)));
  return steps.findLast(([, size]) => most >= size) ?? steps[0] ?? ["", 1];
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

/** What the nodes have that were there at each step: cores, or bytes. */
function available(nodes: Range["nodes"], metric: string, of: "cores" | "memory_mb"): Values {
  const sizes = nodes.map((each) =>
    (each.metrics[metric] ?? []).map((value) =>
      value === null ? null : of === "cores" ? each.cores : each.memory_mb * KIB ** 2,
    ),
  );
  return together(sizes, "");
}
