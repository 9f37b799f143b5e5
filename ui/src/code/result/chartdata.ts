import { type Column, measured, type Row, shown } from "./rows";

export const KINDS = ["bar", "line", "scatter"] as const;
export type ChartKind = (typeof KINDS)[number];

/** What is drawn: a column across, and one or several columns of numbers. */
export interface Choice {
  kind: ChartKind;
  x: number;
  ys: number[];
}

/** `labels`: of the places 0, 1, 2 ... of `xs`, where x is no number and no time. Times are epoch seconds. */
export interface ChartData {
  xs: number[];
  labels?: string[];
  time: boolean;
  series: { name: string; values: (number | null)[] }[];
  left: number; // rows or groups that are not drawn
}

const MOST_BARS = 100;
const MOST_POINTS = 10_000;

const numeric = (columns: Column[]) => columns.flatMap((each, at) => (each.kind === "number" ? [at] : []));

/** A chart to begin with: the first column that is no number across, and the first number up; undefined without any number. */
export function firstChoice(columns: Column[]): Choice | undefined {
  const numbers = numeric(columns);
  const time = columns.findIndex((each) => each.kind === "time");
  const text = columns.findIndex((each) => each.kind === "text");
  const x = time >= 0 ? time : text >= 0 ? text : numbers.length > 1 ? (numbers[0] as number) : -1;
  const y = numbers.find((each) => each !== x);
  if (y === undefined) return undefined;
  if (x < 0) return { kind: "line", x: -1, ys: [y] };
  return { kind: time >= 0 ? "line" : text >= 0 ? "bar" : "scatter", x, ys: [y] };
}

/** The values to draw. x -1 is the row's number. Bars of the same x are added up. */
export function chartData(columns: Column[], rows: Row[], { kind, x, ys }: Choice): ChartData {
  const across = columns[x];
  const names = ys.map((y) => columns[y]?.name ?? "");
  const up = (row: Row) => ys.map((y) => measured(row[y], "number") ?? null);
  if (kind === "bar" || across?.kind === "text") {
    const most = kind === "bar" ? MOST_BARS : MOST_POINTS;
    const groups =
      kind === "bar" ? added(rows, x, up) : rows.map((row, at) => ({ label: labelOf(row, x, at), ups: up(row) }));
    const drawn = groups.slice(0, most);
    return {
      xs: drawn.map((_, at) => at),
      labels: drawn.map((each) => each.label),
      time: false,
      series: names.map((name, at) => ({ name, values: drawn.map((each) => each.ups[at] ?? null) })),
      left: groups.length - drawn.length,
    };
  }
  const time = across?.kind === "time";
  const points = rows.flatMap((row, at) => {
    const place = across === undefined ? at + 1 : measured(row[x], across.kind);
    return place === undefined ? [] : [{ place: time ? place / 1000 : place, ups: up(row) }];
  });
  points.sort((a, b) => a.place - b.place);
  const drawn = points.slice(0, MOST_POINTS);
  return {
    xs: drawn.map((each) => each.place),
    time,
    series: names.map((name, at) => ({ name, values: drawn.map((each) => each.ups[at] ?? null) })),
    left: rows.length - drawn.length,
  };
}

const labelOf = (row: Row, x: number, at: number) => (x < 0 ? String(at + 1) : shown(row[x]));

interface Group {
  label: string;
  ups: (number | null)[];
}

function added(rows: Row[], x: number, up: (row: Row) => (number | null)[]): Group[] {
  const groups = new Map<string, Group>();
  rows.forEach((row, at) => {
    const label = labelOf(row, x, at);
    const group = groups.get(label);
    const ups = up(row);
    if (group === undefined) groups.set(label, { label, ups });
    else group.ups = group.ups.map((sum, each) => (sum === null ? (ups[each] ?? null) : sum + (ups[each] ?? 0)));
  });
  return [...groups.values()];
}

const figure = (value: number) => value.toLocaleString(undefined, { maximumFractionDigits: 3 });

/** What a chart shows, in words. */
export function described(data: ChartData, kind: ChartKind, x: string): string {
  const lines = data.series.map(({ name, values }) => {
    const known = values.filter((each): each is number => each !== null);
    if (known.length === 0) return `${name}: no numbers`;
    let [low, high] = [known[0] as number, known[0] as number];
    for (const each of known) [low, high] = [Math.min(low, each), Math.max(high, each)];
    return `${name} from ${figure(low)} to ${figure(high)}`;
  });
  return `${{ bar: "Bar", line: "Line", scatter: "Scatter" }[kind]} chart by ${x}, ${data.xs.length} points: ${lines.join("; ")}`;
}
