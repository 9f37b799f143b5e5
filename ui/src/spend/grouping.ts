import type { components } from "../api/schema";

export type SpendGroup = components["schemas"]["SpendGroup"];
export type Budget = components["schemas"]["BudgetView"];

export const RANGES = [
  { value: "1d", label: "Today", days: 1 },
  { value: "7d", label: "Week", days: 7 },
  { value: "30d", label: "30 days", days: 30 },
  { value: "90d", label: "90 days", days: 90 },
  { value: "365d", label: "Year", days: 365 },
] as const;
export const KEYS = [
  { value: "creator", label: "User" },
  { value: "cluster", label: "Cluster" },
  { value: "tag", label: "Tag" },
  { value: "node_type", label: "Node type" },
  { value: "role", label: "Driver or worker" },
] as const;
export type Key = (typeof KEYS)[number]["value"];

/** What the page shows; it is in its address. */
export interface SpendSearch {
  range?: (typeof RANGES)[number]["value"]; // a week if there is none
  by?: Key; // the user if there is none
  key?: string; // of the tag, if it is by tag
  user?: string;
  tag?: string; // KEY=VALUE
  cluster?: string;
}

const text = (given: unknown) => (given === undefined || given === "" ? undefined : String(given));

export function readSpendSearch(given: Record<string, unknown>): SpendSearch {
  const found: SpendSearch = {
    range: RANGES.find((each) => each.value === given.range)?.value,
    by: KEYS.find((each) => each.value === given.by)?.value,
    key: text(given.key),
    user: text(given.user),
    tag: text(given.tag),
    cluster: text(given.cluster),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** The `group_by` of the API; undefined: a tag has to be named first. */
export function groupBy({ by = "creator", key }: SpendSearch): string | undefined {
  if (by !== "tag") return by;
  return key ? `tag:${key}` : undefined;
}

/** From the midnight that begins the first day until now, in the reader's time zone. */
export function rangeOf(range: SpendSearch["range"], now: number): { start_time: number; end_time: number } {
  const days = RANGES.find((each) => each.value === (range ?? "7d"))?.days ?? 7;
  const first = new Date(now);
  first.setHours(0, 0, 0, 0);
  first.setDate(first.getDate() - days + 1);
  return { start_time: first.getTime(), end_time: now };
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
    (one, other) => Number(one.others) - Number(other.others) || sum(other) - sum(one) || one.key.localeCompare(other.key),
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
  const heads = ["day", "key", "cluster_name", "creator_user_name", "amount", "currency", "node_hours", "price_per_hour"];
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
