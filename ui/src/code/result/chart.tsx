import "uplot/dist/uPlot.min.css";
import { Checkbox, Group, NativeSelect, Text, useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { count } from "../../lib/sizes";
import { type ChartData, type ChartKind, type Choice, chartData, described, firstChoice, KINDS } from "./chartdata";
import type { Column, Row } from "./rows";

const HEIGHT = 300; // pixels
const MOST_SERIES = 8; // that can be chosen
/** Told apart also by those who see few colours (Okabe and Ito), on either background. */
const COLOURS = {
  light: ["#0072b2", "#b45309", "#00795a", "#a3457a", "#5b5bd6"],
  dark: ["#56b4e9", "#e69f00", "#2fbf8f", "#e08ab8", "#a5a5f5"],
};
const LABELS: Record<ChartKind, string> = { bar: "Bar", line: "Line", scatter: "Scatter" };

/** A table's chart. The table itself says the same in words and numbers. */
export default function ResultChart({ columns, rows }: { columns: Column[]; rows: Row[] }) {
  const [choice, setChoice] = useState<Choice>(() => firstChoice(columns) ?? { kind: "bar", x: -1, ys: [] });
  const data = useMemo(() => chartData(columns, rows, choice), [columns, rows, choice]);
  const across = columns[choice.x]?.name ?? "row";
  const numbers = columns.flatMap((each, at) => (each.kind === "number" ? [{ name: each.name, at }] : []));
  const toggle = (at: number) => {
    const ys = choice.ys.includes(at) ? choice.ys.filter((each) => each !== at) : [...choice.ys, at];
    setChoice({ ...choice, ys });
  };
  return (
    <div className="resultchart">
      <Group gap="sm" align="flex-end">
        <NativeSelect
          size="xs"
          label="Chart"
          data={KINDS.map((value) => ({ value, label: LABELS[value] }))}
          value={choice.kind}
          onChange={(event) => setChoice({ ...choice, kind: event.currentTarget.value as ChartKind })}
        />
        <NativeSelect
          size="xs"
          label="X axis"
          data={[
            { value: "-1", label: "Row number" },
            ...columns.map((each, at) => ({ value: String(at), label: each.name })),
          ]}
          value={String(choice.x)}
          onChange={(event) => setChoice({ ...choice, x: Number(event.currentTarget.value) })}
        />
        <fieldset>
          <legend>Y axis</legend>
          <Group gap="sm">
            {numbers.slice(0, MOST_SERIES).map(({ name, at }) => (
              <Checkbox key={at} size="xs" label={name} checked={choice.ys.includes(at)} onChange={() => toggle(at)} />
            ))}
          </Group>
        </fieldset>
      </Group>
      {choice.ys.length === 0 ? (
        <Text c="dimmed">Choose a column of numbers.</Text>
      ) : (
        <Plot data={data} kind={choice.kind} across={across} label={described(data, choice.kind, across)} />
      )}
      {(data.left > 0 || choice.kind === "bar") && (
        <Text size="sm" c="dimmed">
          {data.left > 0 && `${count(data.left, choice.kind === "bar" ? "bar" : "row")} not drawn. `}
          {choice.kind === "bar" && choice.x >= 0 && `Rows with the same ${across} are added up.`}
        </Text>
      )}
    </div>
  );
}

function Plot({ data, kind, across, label }: { data: ChartData; kind: ChartKind; across: string; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(
      options(data, kind, across, scheme, element),
      [data.xs, ...data.series.map((each) => each.values)],
      element,
    );
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [data, kind, across, scheme]);
  return <div ref={place} className="chart" role="img" aria-label={label} />;
}

const figure = (value: number | null | undefined) =>
  value == null ? "–" : value.toLocaleString(undefined, { maximumFractionDigits: 3 });

function options(
  data: ChartData,
  kind: ChartKind,
  across: string,
  scheme: "light" | "dark",
  element: HTMLElement,
): uPlot.Options {
  const style = getComputedStyle(element);
  const [ink, line] = [style.getPropertyValue("--mantine-color-dimmed"), style.getPropertyValue("--b-line")];
  const axis = {
    stroke: ink,
    font: `11px ${style.fontFamily}`,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
  };
  const { labels, xs } = data;
  const ends: [number, number] = [xs[0] ?? 0, xs.at(-1) ?? 1];
  const labelled = (at: number) => (Number.isInteger(at) ? (labels?.[at] ?? "") : "");
  const colour = (at: number) => COLOURS[scheme][at % COLOURS[scheme].length] as string;
  const drawn = {
    bar: { paths: uPlot.paths.bars?.({ size: [0.7, 60] }), points: { show: false }, filled: true },
    line: { paths: undefined, points: { show: xs.length < 100 }, filled: false },
    scatter: { paths: () => null, points: { show: true, size: 6 }, filled: false },
  }[kind];
  return {
    width: element.clientWidth,
    height: HEIGHT,
    cursor: { drag: { setScale: false, x: false, y: false } },
    scales: {
      x: {
        time: data.time,
        range: labels
          ? () => [-0.6, Math.max(0, xs.length - 1) + 0.6]
          : ends[0] === ends[1]
            ? () => [ends[0] - 1, ends[1] + 1]
            : undefined,
      },
      y:
        kind === "bar"
          ? { range: (_, low, high) => [Math.min(0, low ?? 0) * 1.05, Math.max(0, high ?? 0) * 1.05 || 1] }
          : {},
    },
    axes: [
      labels
        ? {
            ...axis,
            values: (_, splits) => splits.map((each) => cut(labelled(each))),
            incrs: [1, 2, 5, 10, 20, 50, 100, 1000],
          }
        : data.time
          ? axis
          : { ...axis, values: (_, splits) => splits.map(figure) },
      { ...axis, size: 64, values: (_, splits) => splits.map(figure) },
    ],
    series: [
      labels
        ? { label: across, value: (_, at: number | null) => (at === null ? "–" : labelled(at)) }
        : data.time
          ? { label: across }
          : { label: across, value: (_, at: number | null) => figure(at) },
      ...data.series.map((each, at) => ({
        label: each.name,
        stroke: colour(at),
        width: 1.5,
        fill: drawn.filled ? `${colour(at)}b0` : undefined,
        paths: drawn.paths,
        points: { ...drawn.points, stroke: colour(at), fill: kind === "scatter" ? colour(at) : undefined },
        value: (_: uPlot, value: number | null) => figure(value),
      })),
    ],
  };
}

const cut = (label: string) => (label.length > 14 ? `${label.slice(0, 13)}…` : label);
