import type { components } from "../api/schema";

export type Limits = components["schemas"]["AutoTerminateView"];
export type Schedule = components["schemas"]["ScheduleView"];
export type Snapshot = components["schemas"]["Snapshot"];

export const CRONS = [
  { value: "0 8 * * MON-FRI", label: "Working days at 8:00" },
  { value: "0 18 * * MON-FRI", label: "Working days at 18:00" },
  { value: "0 6 * * *", label: "Every day at 6:00" },
  { value: "0 * * * *", label: "Every hour" },
  { value: "0 6 * * MON", label: "Mondays at 6:00" },
];

const LABELS: [keyof Limits, string, string][] = [
  ["idle_minutes", "Idle for", "min"],
  ["max_runtime_minutes", "Longest run", "min"],
  ["at", "At a time", ""],
  ["max_cost", "Highest cost", ""],
];

export interface LimitRow {
  name: string;
  label: string;
  value: string; // "" if there is none
  remaining: number | undefined; // seconds
}

/** The limits that stop a cluster, those that are not set included. */
export const limitsOf = (limits: Limits): LimitRow[] =>
  LABELS.map(([name, label, unit]) => {
    const value = limits[name];
    const shown = value == null || !limits.enabled ? "" : unit ? `${value} ${unit}` : String(value);
    return { name, label, value: shown, remaining: limits.remaining_seconds?.[name] };
  });

/** The changes to limits that a form gives: a number, or null for none. What stays as it is is left out. */
export function updatesOf(given: Record<string, number | string>, now: Limits): Record<string, number | null> {
  const found: Record<string, number | null> = {};
  for (const [name, text] of Object.entries(given)) {
    const value = text === "" ? null : Number(text);
    if (value !== (now[name as keyof Limits] ?? null)) found[name] = value;
  }
  return found;
}
