import type { Language, Progress, Result, Status } from "../../code/commands";

/** The last run of a cell. `dropped`: its result was too large to be kept over a reload. */
export interface Run {
  status: Status | "Starting";
  begun: number; // epoch ms
  took?: number; // ms, once it is over
  contextId?: string;
  commandId?: string;
  progress?: Progress;
  result?: Result | null;
  dropped?: boolean;
  failure?: string; // why the server refused it, or why its outcome is unknown
  note?: string;
}

/** What runs, whatever else is known of it. */
export interface Runnable {
  id: number;
  run?: Run;
}

export interface Cell extends Runnable {
  language: Language;
  code: string;
}

export const MOST_CELLS = 100;
const MOST_RESULT = 256_000; // characters of a result that is kept over a reload
const MOST_RESULTS = 2_000_000; // of all of them

export const waits = (run: Run | undefined) =>
  run !== undefined && ["Starting", "Queued", "Running", "Cancelling"].includes(run.status);

export const failed = (run: Run) =>
  run.status !== "Cancelled" &&
  (run.status === "Error" || run.failure !== undefined || run.result?.resultType === "error");

export const nextId = (cells: Runnable[]) => Math.max(0, ...cells.map((each) => each.id)) + 1;

/** The cells with an empty one at a position, and its id. */
export function inserted(cells: Cell[], at: number, language: Language): [Cell[], number] {
  const id = nextId(cells);
  return [cells.toSpliced(at, 0, { id, language, code: "" }), id];
}

/** The cells without one; there is always one to type into. */
export function removed(cells: Cell[], id: number): Cell[] {
  const rest = cells.filter((each) => each.id !== id);
  return rest.length > 0 ? rest : [{ id: nextId(cells), language: cells[0]?.language ?? "python", code: "" }];
}

/** The cells with one of them moved by that many places, as far as there are any. */
export function moved<C extends Runnable>(cells: C[], id: number, by: number): C[] {
  const from = cells.findIndex((each) => each.id === id);
  const to = Math.min(cells.length - 1, Math.max(0, from + by));
  const cell = cells[from];
  return cell === undefined || from === to ? cells : cells.toSpliced(from, 1).toSpliced(to, 0, cell);
}

export const changed = <C extends Runnable>(cells: C[], id: number, change: Partial<C>): C[] =>
  cells.map((each) => (each.id === id ? { ...each, ...change } : each));

/** The cells after a command has something new to tell. One that its cell no longer shows changes nothing. */
export function told<C extends Runnable>(cells: C[], id: number, begun: number, news: Partial<Run>): C[] {
  return cells.map((each) =>
    each.id === id && each.run?.begun === begun ? { ...each, run: { ...each.run, ...news } } : each,
  );
}

/** What is kept over a reload: all code, and results as far as they fit, those of the newest runs first. */
export function kept<C extends Runnable>(cells: C[]): C[] {
  let left = MOST_RESULTS;
  const fitting = new Set<number>();
  const newest = cells.filter((each) => each.run?.result).sort((a, b) => (b.run?.begun ?? 0) - (a.run?.begun ?? 0));
  for (const each of newest) {
    const size = JSON.stringify(each.run?.result).length;
    if (size > MOST_RESULT || size > left) continue;
    left -= size;
    fitting.add(each.id);
  }
  return cells.map((each) => {
    if (each.run === undefined) return each;
    const { progress: _, ...run } = each.run;
    if (!run.result || fitting.has(each.id)) return { ...each, run };
    const { result: __, ...rest } = run;
    return { ...each, run: { ...rest, dropped: true } };
  });
}

/** The cells that a text holds, as `kept` has written them; none if it makes no sense. */
export function read(text: string | null): Cell[] {
  let found: unknown;
  try {
    found = JSON.parse(text ?? "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(found)) return [];
  const cells = (found as Partial<Cell>[]).filter(
    (each) => typeof each?.id === "number" && typeof each.code === "string" && typeof each.language === "string",
  ) as Cell[];
  return cells.slice(0, MOST_CELLS).map(afterReload);
}

/** A cell as it is after a reload: what had not reached the server then may or may not run. */
export const afterReload = <C extends Runnable>(cell: C): C =>
  cell.run && lost(cell.run) ? { ...cell, run: unknown(cell.run) } : cell;

/** Whether the page was left before it knew the command's name. */
const lost = (run: Run) => waits(run) && (run.commandId === undefined || run.contextId === undefined);

const unknown = (run: Run): Run => ({
  ...run,
  status: "Error",
  took: 0,
  failure: "The page was reloaded while this command was being sent. Its result is unknown.",
});
