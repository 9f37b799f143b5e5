import { describe, expect, it } from "vitest";
import { alone, lifeOf, placed } from "./plotting";

it("draws as a point what has no neighbour", () => {
  expect(alone([1, null, 2, 3, null, 4])).toEqual([0, 5]);
  expect(alone([null, 7, null])).toEqual([1]);
  expect(alone([1, 2])).toEqual([]);
  expect(alone([])).toEqual([]);
});

describe("placed", () => {
  const at = (x: number, text = "up") => ({ x, text, width: 20 });
  const rows = (...xs: number[]) =>
    placed(
      xs.map((x) => at(x)),
      500,
      2,
      4,
    ).map((each) => each.row);

  it("puts labels that would overlap below each other, and leaves out what has no room", () => {
    expect(rows(0, 100)).toEqual([0, 0]);
    expect(rows(0, 10)).toEqual([0, 1]);
    expect(rows(0, 10, 12)).toEqual([0, 1]);
    expect(rows(0, 10, 40)).toEqual([0, 1, 0]);
  });

  it("takes them in the order of time", () => {
    expect(placed([at(50, "b"), at(0, "a")], 500, 1, 4).map((each) => each.text)).toEqual(["a", "b"]);
  });

  it("keeps the last one inside of the chart", () => {
    expect(placed([at(495)], 500, 1, 4)).toMatchObject([{ left: true, row: 0 }]);
    expect(placed([at(470), at(495)], 500, 2, 4)).toMatchObject([{ left: false }, { left: true, row: 1 }]);
  });
});

it("spans a cluster's life, and a minute at least", () => {
  expect(lifeOf(12_345, 98_765, 1e9)).toEqual([10_000, 105_000]);
  expect(lifeOf(12_345, 13_000, 1e9)).toEqual([10_000, 70_000]);
  expect(lifeOf(12_345, 0, 200_000)).toEqual([10_000, 205_000]);
});
