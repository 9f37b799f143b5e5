import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { money } from "../clusters/facts";
import { type Series, stacked } from "./grouping";

const HEIGHT = 220; // pixels
/** Told apart also by those who see few colours (Okabe and Ito; the last is for others). */
export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f"];
export const colourOf = (series: Pick<Series, "others">, at: number) =>
  series.others ? "#7f7f7f" : (COLOURS[at % (COLOURS.length - 1)] as string);

interface Props {
  days: string[];
  series: Series[];
  currency: string;
  line: number | undefined; // what a budget allows on a day
}

const short = (day: string) =>
  new Date(`${day}T12:00`).toLocaleDateString(undefined, { month: "short", day: "numeric" });

/** Bars of days, stacked by what is compared. The table below has the same in figures. */
export function SpendChart({ days, series, currency, line }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme("light");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme's colours are read from the page
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const sums = stacked(series);
    const top = Math.max(0, ...(sums.at(-1) ?? []), line ?? 0);
    const style = getComputedStyle(element);
    const [ink, rule] = [style.getPropertyValue("--mantine-color-dimmed"), style.getPropertyValue("--b-line")];
    const font = `11px ${style.fontFamily}`;
    const axis = { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const bars = uPlot.paths.bars?.({ size: [0.7, 64] });
    const drawn = series.map((_, at) => series.length - 1 - at); // the highest sum lies behind the others
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, range: [-0.5, days.length - 0.5] },
          y: { range: [0, top > 0 ? top * 1.08 : 1] },
        },
        axes: [
          {
            ...axis,
            size: 28,
            grid: { show: false },
            incrs: [1, 2, 7, 14, 30, 60, 90],
            values: (_, splits) => splits.map((at) => (days[at] === undefined ? "" : short(days[at]))),
          },
          {
            ...axis,
            size: 64,
            values: (_, splits) => splits.map((value) => money(value, currency, (splits[1] ?? 1) - (splits[0] ?? 0))),
          },
        ],
        series: [
          {},
          ...drawn.map((at) => {
            const colour = colourOf(series[at] as Series, at);
            return { fill: colour, stroke: colour, width: 0, paths: bars, points: { show: false } };
          }),
        ],
        hooks: {
          draw: [
            ({ ctx, bbox, valToPos }) => {
              if (line === undefined) return;
              const y = valToPos(line, "y", true);
              ctx.save();
              ctx.strokeStyle = ink;
              ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
              ctx.beginPath();
              ctx.moveTo(bbox.left, y);
              ctx.lineTo(bbox.left + bbox.width, y);
              ctx.stroke();
              ctx.restore();
            },
          ],
        },
      },
      [days.map((_, at) => at), ...drawn.map((at) => sums[at] as number[])],
      element,
    );
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [days, series, currency, line, scheme]);
  const sums = stacked(series).at(-1) ?? [];
  const said = days.map((day, at) => `${short(day)} ${money(sums[at] ?? 0, currency)}`).join(", ");
  return (
    <figure className="chart spend-chart">
      <div ref={place} role="img" aria-label={`Spend by day: ${said}`} />
      <figcaption>
        <ul className="legend">
          {series.map((each, at) => (
            <li key={each.others ? "others" : `key ${each.key}`}>
              <svg width={9} height={9} aria-hidden="true">
                <rect width={9} height={9} rx={2} fill={colourOf(each, at)} />
              </svg>{" "}
              {each.name}
            </li>
          ))}
          {line !== undefined && <li>- - - A day's share of the budget</li>}
        </ul>
      </figcaption>
    </figure>
  );
}
