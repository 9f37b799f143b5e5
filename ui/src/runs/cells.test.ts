import { expect, it } from "vitest";
import { type Cell, isNote, merged, NONE, wordOf } from "./cells";

const cell = (number: number, version: number, state: string, more: Partial<Cell> = {}) =>
  ({ number, version, state, ...more }) as Cell & { results: never[] };

it("adds what has changed", () => {
  const first = merged(NONE, { cells: [cell(1, 2, "WAITING"), cell(0, 3, "RUNNING")], has_more: false, over: false });
  expect(first.cells.map((each) => each.number)).toEqual([0, 1]);
  expect(first.version).toBe(3);
  const next = merged(first, { cells: [cell(0, 4, "FINISHED")], has_more: false, over: false });
  expect(next.cells.map((each) => each.state)).toEqual(["FINISHED", "WAITING"]);
  const over = merged(
    { ...next, cells: [...next.cells, cell(2, 4, "RUNNING")] },
    { cells: [], has_more: false, over: true },
  );
  expect(over.cells.map((each) => each.state)).toEqual(["FINISHED", "SKIPPED", "CANCELLED"]);
  expect([over.version, over.over]).toEqual([4, true]);
});

it("knows notes and states", () => {
  const html = { resultType: "text" as const, data: "<p>", isHtml: true };
  expect(isNote(cell(0, 1, "FINISHED", { language: "markdown", results: [html] }))).toBe(true);
  expect(isNote(cell(0, 1, "WAITING", { language: "markdown" }))).toBe(false);
  expect(wordOf(cell(0, 1, "ERROR"))).toEqual({ word: "Error", look: "bad" });
});
