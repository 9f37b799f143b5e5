import { useEffect, useState } from "react";

const STEPS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
];

export function ago(then: number, now: number): string {
  const passed = Math.max(0, now - then);
  for (const [size, unit] of STEPS) if (passed >= size) return `${Math.floor(passed / size)} ${unit} ago`;
  return "just now";
}

/** "4 m 12 s", "3 h 5 m". */
export function lasting(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
}

// Made once: that takes longer than all else that is done for a row of a list.
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

export function exactly(then: number): string {
  return EXACT.format(then);
}

/** "Nov 27, 10:29:15 AM": of entries in a log. */
export const toTheSecond = (then: number) =>
  new Date(then).toLocaleString(undefined, {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });

/** The time, which goes on. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
