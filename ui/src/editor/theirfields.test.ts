import { expect, test } from "vitest";
import { changedLines, conflictText } from "./theirfields";

test("every field that differs is named, with both values", () => {
  const before = { name: "a", max_capacity: 10, tags: { x: "1" }, same: null };
  const now = { name: "a", max_capacity: null, tags: { x: "2" }, same: undefined, more: "m" };
  expect(changedLines(before, now)).toEqual([
    "max_capacity: 10 → not set",
    'tags: {"x":"1"} → {"x":"2"}',
    "more: not set → m",
  ]);
});

test("a long value is cut", () => {
  expect(changedLines({ definition: "" }, { definition: `{\n  "a": "${"x".repeat(200)}" }` })[0]).toMatch(
    /^definition: not set → \{ "a": "x{40,80}…$/,
  );
});

test("the text says what happened, what to do, and what has changed", () => {
  expect(conflictText("pool", { a: 1 }, { a: 2 }).split("\n")).toEqual([
    "Someone else saved this pool first. Save again to replace their changes.",
    "a: 1 → 2",
  ]);
});
