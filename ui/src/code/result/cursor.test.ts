import { expect, test } from "vitest";
import { moved } from "./cursor";

const EXTENT = { rows: 100, columns: 3, page: 10 };
const at = (row: number, column: number) => ({ row, column });

test.each([
  ["ArrowDown", false, at(51, 1)],
  ["ArrowUp", false, at(49, 1)],
  ["ArrowRight", false, at(50, 2)],
  ["ArrowLeft", false, at(50, 0)],
  ["PageDown", false, at(60, 1)],
  ["PageUp", false, at(40, 1)],
  ["Home", false, at(50, 0)],
  ["End", false, at(50, 2)],
  ["Home", true, at(0, 0)],
  ["End", true, at(99, 2)],
  ["ArrowDown", true, at(99, 1)],
])("%s (far: %s)", (key, far, to) => {
  expect(moved(at(50, 1), key, far, EXTENT)).toEqual(to);
});

test("no key leads out of the table, and the first one to its first cell", () => {
  expect(moved(at(0, 0), "ArrowUp", false, EXTENT)).toEqual(at(0, 0));
  expect(moved(at(99, 2), "PageDown", false, EXTENT)).toEqual(at(99, 2));
  expect(moved(undefined, "ArrowDown", false, EXTENT)).toEqual(at(0, 0));
  expect(moved(at(0, 0), "x", false, EXTENT)).toBeUndefined();
  expect(moved(undefined, "ArrowDown", false, { ...EXTENT, rows: 0 })).toBeUndefined();
});
