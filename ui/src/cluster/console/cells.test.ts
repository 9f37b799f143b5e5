import { expect, test } from "vitest";
import { type Cell, changed, inserted, kept, moved, read, removed, told } from "./cells";

const cell = (id: number, more: Partial<Cell> = {}): Cell => ({ id, language: "python", code: `${id}`, ...more });
const ids = (cells: Cell[]) => cells.map((each) => each.id);
const text = (length: number) => ({ resultType: "text" as const, data: "x".repeat(length) });
const three = [cell(1), cell(2), cell(3)];

test("cells are inserted, removed and moved, and one is always there", () => {
  const [four, id] = inserted(three, 1, "sql");
  expect(ids(four)).toEqual([1, 4, 2, 3]);
  expect(four[1]).toEqual({ id, language: "sql", code: "" });
  expect(ids(removed(three, 2))).toEqual([1, 3]);
  expect(removed([cell(5)], 5)).toEqual([{ id: 6, language: "python", code: "" }]);
  expect(ids(moved(three, 1, 1))).toEqual([2, 1, 3]);
  expect(ids(moved(three, 1, -1))).toEqual([1, 2, 3]);
  expect(ids(moved(three, 1, 9))).toEqual([2, 3, 1]);
  expect(moved(three, 9, 1)).toBe(three);
  expect(changed(three, 2, { code: "new" })[1]?.code).toBe("new");
});

test("only the cell's last run hears of its command", () => {
  const cells = [cell(1, { run: { status: "Running", begun: 10 } })];
  expect(told(cells, 1, 10, { status: "Finished" })[0]?.run?.status).toBe("Finished");
  expect(told(cells, 1, 9, { status: "Finished" })[0]?.run?.status).toBe("Running");
});

test("all code is kept, and of the results the newest that fit", () => {
  const run = (begun: number, length: number) => ({ status: "Finished" as const, begun, result: text(length) });
  const many = Array.from({ length: 12 }, (_, at) => cell(at + 1, { run: run(at, 200_000) }));
  const cells = kept([...many, cell(99, { run: run(50, 300_000) })]);
  expect(cells.length).toBe(13);
  expect(cells.filter((each) => each.run?.result).map((each) => each.id)).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12]);
  expect(cells.at(-1)?.run).toEqual({ status: "Finished", begun: 50, dropped: true });
  expect(JSON.stringify(cells).length).toBeLessThan(2_100_000);
});

test("what was kept is read again, and what is no such text is nothing", () => {
  const running = { status: "Running" as const, begun: 1, contextId: "c", commandId: "d", progress: { printed: "x" } };
  const [again] = read(JSON.stringify(kept([cell(1, { run: running })])));
  expect(again?.run).toEqual({ status: "Running", begun: 1, contextId: "c", commandId: "d" });
  expect(read(null)).toEqual([]);
  expect(read("{")).toEqual([]);
  expect(read('{"id": 1}')).toEqual([]);
  expect(read('[null, {"id": "1"}, {"id": 2, "code": "x", "language": "sql"}]').length).toBe(1);
});

test("a command whose name the page never knew has an unknown result", () => {
  const [again] = read(JSON.stringify([cell(1, { run: { status: "Starting", begun: 1 } })]));
  expect(again?.run?.status).toBe("Error");
  expect(again?.run?.failure).toContain("unknown");
});
