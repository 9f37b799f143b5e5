import type { components } from "../api/schema";
import { RANGES, type SpendSearch } from "./search";

export type SpendGroup = Required<components["schemas"]["SpendGroup"]>;
export type Budget = Required<components["schemas"]["BudgetView"]>;

/** The `group_by` of the API; undefined: a tag has to be named first. */
export function groupBy({ by = "creator", key }: SpendSearch): string | undefined {
  if (by !== "tag") return by;
  return key ? `tag:${key}` : undefined;
}

/** The midnight that begins the first day, in the reader's time zone. Ranges end now, by the server's clock. */
export function startOf(range: SpendSearch["range"], now: number): number {
  const days = RANGES.find((each) => each.value === (range ?? "7d"))?.days ?? 7;
  const first = new Date(now);
  first.setHours(0, 0, 0, 0);
  first.setDate(first.getDate() - days + 1);
  return first.getTime();
}

/** "2026-11-27" of each day of a range. */
export function daysOf(start: number, end: number): string[] {
  const day = new Date(start);
  const found: string[] = [];
  while (day.getTime() < end) {
    const two = (number: number) => String(number).padStart(2, "0");
    found.push(`${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`);
    day.setDate(day.getDate() + 1);
  }
  return found;
}

export interface Series {
  key: string;
  others: boolean;
  name: string;
  amounts: number[]; // one for each day
}

/** Groups by day and key as lines of a chart, the greatest first and the others last. A day without a group cost nothing. */
export function seriesOf(groups: SpendGroup[], days: string[], currency: string): Series[] {
  const at = new Map(days.map((day, index) => [day, index]));
  const found = new Map<string, Series>();
  for (const group of groups.filter((each) => each.currency === currency)) {
    const id = group.others ? "others" : `key ${group.key}`;
    let series = found.get(id);
    if (series === undefined) {
      series = { key: group.key, others: group.others, name: nameOf(group), amounts: days.map(() => 0) };
      found.set(id, series);
    }
    const index = at.get(group.day);
    if (index !== undefined) series.amounts[index] = (series.amounts[index] ?? 0) + group.amount;
  }
  const sum = (series: Series) => series.amounts.reduce((one, other) => one + other, 0);
  return [...found.values()].sort(
    (one, other) =>
      Number(one.others) - Number(other.others) || sum(other) - sum(one) || one.key.localeCompare(other.key),
  );
}

export const nameOf = (group: Pick<SpendGroup, "key" | "others" | "cluster_name">) =>
  group.others ? "Others" : group.cluster_name || group.key || "Without the tag";

/** Each amount and those below it together: what stacked bars are drawn of, the highest first. */
export function stacked(series: Series[]): number[][] {
  const sums: number[][] = [];
  let below = series[0]?.amounts.map(() => 0) ?? [];
  for (const each of series) {
    below = below.map((value, at) => value + (each.amounts[at] ?? 0));
    sums.push(below);
  }
  return sums;
}

/** The monthly budgets that what is shown counts towards as a whole: those with the same filter. */
export const fitting = (budgets: Budget[], { user, tag, cluster }: SpendSearch, currency: string) =>
  cluster
    ? []
    : budgets.filter(
        (each) => each.currency === currency && each.tag === (tag ?? "") && each.creator_user_name === (user ?? ""),
      );

/** A value of a table for a spreadsheet: never read as a formula there. */
function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvOf(groups: SpendGroup[]): string {
  const heads = [
    "day",
    "key",
    "cluster_name",
    "creator_user_name",
    "amount",
    "currency",
    "node_hours",
    "price_per_hour",
  ];
  const rows = groups.map((each) =>
    [
      each.day,
      each.others ? "others" : each.key,
      each.cluster_name,
      each.creator_user_name,
      each.amount,
      each.currency,
      each.node_hours,
      each.price_per_hour,
    ].map(cell),
  );
  return [heads, ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}
