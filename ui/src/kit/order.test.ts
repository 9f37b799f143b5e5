import { expect, test } from "vitest";
import { inOrder, sorted } from "./order";

const names = [{ id: "node10" }, { id: "node9" }, { id: "Node1" }];
const columns = [{ id: "name", accessorFn: (row: { id: string }) => row.id }];

test("numbers within names count as numbers", () => {
  expect(sorted(names, columns, "name").map((each) => each.id)).toEqual(["Node1", "node9", "node10"]);
  expect(sorted(names, columns, "-name").map((each) => each.id)).toEqual(["node10", "node9", "Node1"]);
});

test("an unknown column leaves the order", () => {
  expect(sorted(names, columns, "size")).toBe(names);
  expect(sorted(names, columns, undefined)).toBe(names);
});

test("rows keep their order under the pointer, and new ones come last", () => {
  const rows = [{ id: "new" }, { id: "a" }, { id: "b" }];
  expect(inOrder(rows, ["b", "a"]).map((each) => each.id)).toEqual(["b", "a", "new"]);
  expect(inOrder(rows, null)).toBe(rows);
});
