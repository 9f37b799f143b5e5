import { describe, expect, it } from "vitest";
import { csvOf, daysOf, fitting, groupBy, type SpendGroup, seriesOf, stacked, startOf } from "./grouping";
import { readSpendSearch } from "./search";

const group = (day: string, key: string, amount: number, more: Partial<SpendGroup> = {}): SpendGroup => ({
  day,
  key,
  amount,
  currency: "EUR",
  others: false,
  cluster_name: "",
  creator_user_name: "",
  node_hours: 1,
  price_per_hour: 0,
  ...more,
});

describe("the address", () => {
  it("keeps what is known and drops the rest", () => {
    expect(readSpendSearch({ range: "30d", by: "color", user: "", tag: 7 })).toEqual({ range: "30d", tag: "7" });
    expect(groupBy({})).toBe("creator");
    expect(groupBy({ by: "tag" })).toBeUndefined();
    expect(groupBy({ by: "tag", key: "a,b" })).toBe("tag:a,b");
  });
});

describe("days", () => {
  it("go from the reader's midnight until now", () => {
    const now = new Date(2026, 10, 27, 15, 30).getTime();
    const start = startOf(undefined, now);
    expect(new Date(start).getHours()).toBe(0);
    const days = daysOf(start, now);
    expect(days).toHaveLength(7);
    expect([days[0], days[6]]).toEqual(["2026-11-21", "2026-11-27"]);
    expect(daysOf(startOf("1d", now), now)).toEqual(["2026-11-27"]);
  });
});

describe("series", () => {
  const days = ["2026-11-26", "2026-11-27"];
  const groups = [
    group("2026-11-26", "", 1),
    group("2026-11-27", "a", 5),
    group("2026-11-26", "", 9, { others: true }),
    group("2026-11-27", "a", 7, { currency: "USD" }),
  ];
  it("are the greatest first, others last, and zero where nothing was spent", () => {
    const found = seriesOf(groups, days, "EUR");
    expect(found.map((each) => [each.name, each.amounts])).toEqual([
      ["a", [0, 5]],
      ["Without the tag", [1, 0]],
      ["Others", [9, 0]],
    ]);
    expect(stacked(found).at(-1)).toEqual([10, 5]);
    expect(stacked([])).toEqual([]);
  });
});

it("gives spreadsheets no formula", () => {
  const text = csvOf([group("", '=cmd|"x"', 1.5, { cluster_name: "a,b" }), group("", "", 2, { others: true })]);
  expect(text.split("\r\n").slice(1, 3)).toEqual([`,"'=cmd|""x""","a,b",,1.5,EUR,1,0`, ",others,,,2,EUR,1,0"]);
});

it("finds the budgets of the same filter", () => {
  const budget = (tag: string, creator: string) => ({ tag, creator_user_name: creator, currency: "EUR" }) as never;
  const budgets = [budget("", ""), budget("t=a", ""), budget("", "ada")];
  expect(fitting(budgets, {}, "EUR")).toEqual([budgets[0]]);
  expect(fitting(budgets, { user: "ada" }, "EUR")).toEqual([budgets[2]]);
  expect(fitting(budgets, { cluster: "c" }, "EUR")).toEqual([]);
  expect(fitting(budgets, {}, "USD")).toEqual([]);
});
