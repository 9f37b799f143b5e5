/** Decisions of how a chart is drawn. Pure: places are pixels. */

/** Points that no line shows, since neither neighbour is known. */
export function alone(values: ArrayLike<number | null | undefined>): number[] {
  const isKnown = (at: number) => values[at] != null;
  return Array.from(values, (_, at) => at).filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}

export interface Label {
  x: number;
  text: string;
  width: number;
}

export interface Placed extends Label {
  row: number;
  left: boolean; // of its mark: it would leave the chart at the right
}

/** The labels that have room, each in the first row where it covers no other. `to`: where the chart ends; `gap`: between two. */
export function placed(labels: readonly Label[], to: number, rows: number, gap: number): Placed[] {
  const ends: number[] = Array.from({ length: rows }, () => Number.NEGATIVE_INFINITY);
  return [...labels]
    .sort((one, other) => one.x - other.x)
    .flatMap((label) => {
      const left = label.x + gap + label.width > to;
      const from = left ? label.x - gap - label.width : label.x;
      const row = ends.findIndex((end) => from >= end + gap);
      if (row < 0) return [];
      ends[row] = left ? label.x : label.x + gap + label.width;
      return [{ ...label, row, left }];
    });
}

const MINUTE = 60_000;
const STEP = 5_000; // a sample

/** The life of a cluster's last run, in whole samples and at least a minute. `end` 0: it goes on. */
export function lifeOf(start: number, end: number, now: number): [from: number, to: number] {
  const from = Math.floor(start / STEP) * STEP;
  return [from, Math.max(Math.ceil((end || now) / STEP) * STEP + STEP, from + MINUTE)];
}
