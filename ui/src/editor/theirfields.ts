import { same, shown } from "./spec";

/** What somebody else has changed, a line each: "max_capacity: 10 → 20". */
export function changedLines(before: object, now: object): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(now)])].flatMap((name) => {
    const [old, next] = [Reflect.get(before, name), Reflect.get(now, name)];
    return same(old ?? null, next ?? null) ? [] : [`${name}: ${oneLine(old)} → ${oneLine(next)}`];
  });
}

const MOST = 80; // characters of a value: a definition can be long
const oneLine = (value: unknown) => {
  const text = shown(value).replace(/\s+/g, " ");
  return text === "" ? "not set" : text.length > MOST ? `${text.slice(0, MOST)}…` : text;
};

export const conflictText = (noun: string, before: object, now: object) =>
  [`Someone else saved this ${noun} first. Save again to replace their changes.`, ...changedLines(before, now)].join(
    "\n",
  );
