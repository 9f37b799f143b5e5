import { expect, test } from "vitest";
import { linesOf, mapOf, pairsOf } from "./pairing";

test("pasted lines are read in the three ways in which people write them", () => {
  expect(linesOf("spark.a.b 1\n# note\n\nexport A=two words\r\nc: d\nalone")).toEqual([
    ["spark.a.b", "1"],
    ["A", "two words"],
    ["c", "d"],
    ["alone", ""],
  ]);
});

test("a pair without a key does not count, and the last of a key does", () => {
  const pairs = [...pairsOf({ a: 1, b: "x" }), ...pairsOf({ a: "2", "": "y" })];
  expect(new Set(pairs.map((each) => each.id)).size).toBe(4);
  expect(mapOf(pairs)).toEqual({ a: "2", b: "x" });
});
