import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import type { Chart } from "./charts";
import { alone, placed } from "./plotting";

const HEIGHT = 180; // pixels
const DAY = 86_400_000;
const ROWS = 2; // of labels of marks, above the plot
const ROW = 12; // pixels
/** Told apart also by those who see few colours (after Okabe and Ito), on either background. */
const COLOURS = {
  light: ["#0072b2", "#b45309", "#00805a", "#a8457f", "#5b4fc4", "#6b6b00", "#007a8a", "#c0392b"],
  dark: ["#56b4e9", "#e69f00", "#2fc79a", "#e59bc8", "#a99cf5", "#d6cf3c", "#4fd0dd", "#ff8a75"],
};

export interface Mark {
  at: number; // epoch ms
  what: string;
}

interface Props {
  chart: Chart;
  times: number[]; // epoch s
  from: number;
  to: number;
  marks: Mark[];
  /** The reader has chosen a part of the range (epoch ms). */
  choose: (from: number, to: number) => void;
}

/** A time of the reader's zone; of ranges of `days`, with its day. */
function clock(seconds: number, days: boolean): string {
  const shown: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  return new Date(seconds * 1000).toLocaleString(
    undefined,
    days ? { ...shown, month: "short", day: "numeric" } : shown,
  );
}

const figure = (value: number | null | undefined) =>
  value == null ? "-" : value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 2 : 1 });

export function ChartView({ chart, times, from, to, marks, choose }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const scheme = useComputedColorScheme("light");
  const latest = useRef({ marks, choose });
  latest.current = { marks, choose };
  const days = to - from > DAY;
  const labels = chart.lines.map((each) => each.label).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: values that change are given to the chart below
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(
      options(chart, scheme, element, latest, days),
      [times, ...chart.lines.map((each) => each.values)],
      element,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [labels, scheme, chart.title, days]);
  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData([times, ...chart.lines.map((each) => each.values)], false);
      plot.current?.setScale("x", { min: from / 1000, max: to / 1000 });
    });
  }, [times, chart, from, to]);

  return (
    <figure className="chart">
      <figcaption>
        <b>{chart.title}</b> <span className="soft">{chart.unit}</span>
        {chart.more && <span className="soft more">{chart.more}</span>}
      </figcaption>
      <div ref={place} role="img" aria-label={said(chart)} />
    </figure>
  );
}

/** What the chart shows, for those who do not see it. */
function said(chart: Chart): string {
  const lines = chart.lines.map(({ label, values }) => {
    const known = values.filter((each): each is number => each !== null);
    return `${label} last ${figure(known.at(-1))}, highest ${figure(known.length > 0 ? Math.max(...known) : null)}`;
  });
  return `${chart.title} in ${chart.unit}: ${lines.join("; ")}`;
}

function options(
  chart: Chart,
  scheme: "light" | "dark",
  element: HTMLElement,
  latest: { current: Pick<Props, "marks" | "choose"> },
  days: boolean,
): uPlot.Options {
  const style = getComputedStyle(element);
  const [ink, line] = [style.getPropertyValue("--mantine-color-dimmed"), style.getPropertyValue("--b-line")];
  const font = `11px ${style.fontFamily}`;
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const colours = COLOURS[scheme];
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [ROWS * ROW + 2, null, null, null],
    legend: { live: true },
    cursor: {
      sync: { key: "cluster" },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
    },
    scales: { y: { range: (_, __, high) => [0, (high ?? 0) > 0 ? (high as number) * 1.08 : 1] } },
    axes: [
      { ...axis, size: 28, values: (_, splits) => splits.map((each) => clock(each, days)) },
      { ...axis, size: 46, values: (_, splits) => splits.map((each) => figure(each)) },
    ],
    series: [
      { value: (_, value: number | null) => (value == null ? "last" : clock(value, days)) },
      ...chart.lines.map((each) => ({
        label: each.label,
        stroke: each.limit ? ink : colours[each.tint % colours.length],
        width: each.limit ? 1 : 1.5,
        dash: each.limit ? [4, 4] : undefined,
        spanGaps: false,
        points: {
          show: false,
          size: 6,
          fill: each.limit ? ink : colours[each.tint % colours.length],
          filter: (made: uPlot, series: number) => alone(made.data[series] ?? []), // no line has these
        },
        value: (made: uPlot, value: number | null, series: number, index: number | null) =>
          figure(index === null ? [...(made.data[series] ?? [])].findLast((known) => known != null) : value),
      })),
    ],
    hooks: {
      setSelect: [
        (made) => {
          if (made.select.width < 6) return;
          const at = (x: number) => Math.round(made.posToVal(x, "x") * 1000);
          latest.current.choose(at(made.select.left), at(made.select.left + made.select.width));
          made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [
        (made) => {
          const { ctx, bbox } = made;
          ctx.save();
          ctx.strokeStyle = ink;
          ctx.fillStyle = ink;
          ctx.font = `${10 * devicePixelRatio}px ${style.fontFamily}`;
          ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
          const inside = latest.current.marks
            .map(({ at, what }) => ({ x: made.valToPos(at / 1000, "x", true), text: what }))
            .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
          for (const { x } of inside) {
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
          }
          const gap = 3 * devicePixelRatio;
          const labels = inside.map((each) => ({ ...each, width: ctx.measureText(each.text).width }));
          for (const { x, text, row, left } of placed(labels, bbox.left + bbox.width, ROWS, gap)) {
            ctx.textAlign = left ? "right" : "left";
            ctx.fillText(text, x, bbox.top - (row * ROW + 4) * devicePixelRatio);
          }
          ctx.restore();
        },
      ],
    },
  };
}
