import { expect, test } from "vitest";
import { type Ran, recalled, remembered } from "./history";

const ran = (code: string): Ran => ({ language: "python", code });

test("a command that is run again moves to the end, and old ones are forgotten", () => {
  expect(remembered([ran("a"), ran("b")], ran("a"))).toEqual([ran("b"), ran("a")]);
  expect(remembered([ran("a")], { language: "sql", code: "a" }).length).toBe(2);
  const full = Array.from({ length: 200 }, (_, at) => ran(String(at)));
  expect(remembered(full, ran("new")).length).toBe(200);
  expect(remembered(full, ran("new"))[0]).toEqual(ran("1"));
  expect(remembered([], ran("x".repeat(30_000)))).toEqual([]);
});

test("up goes to older commands, down to newer ones and then to the empty cell", () => {
  const history = [ran("a"), ran("b")];
  expect(recalled(history, 2, true)).toBe(1);
  expect(recalled(history, 0, true)).toBeUndefined();
  expect(recalled(history, 1, false)).toBe(2);
  expect(recalled(history, 2, false)).toBeUndefined();
  expect(recalled([], 0, true)).toBeUndefined();
});
