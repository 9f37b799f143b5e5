import { expect, test } from "vitest";
import { matching, type Place, step } from "./places";

const place = (id: string, name: string): Place => ({ id, name, icon: "compute", go: () => {} });
const PLACES = [place("all", "Compute"), place("c1", "etl nightly"), place("stop c1", "Stop etl nightly")];
const found = (text: string, most = 8) => matching(PLACES, text, most).map((each) => each.id);

test("each word counts, in any order, in the name or the id", () => {
  expect(found("")).toEqual(["all", "c1", "stop c1"]);
  expect(found("NIGHTLY stop")).toEqual(["stop c1"]);
  expect(found("c1")).toEqual(["c1", "stop c1"]);
  expect(found("etl restart")).toEqual([]);
});

test("no more places are made than are looked at", () => {
  let made = 0;
  function* many() {
    for (;;) yield place(`c${made++}`, "cluster");
  }
  expect(matching(many(), "clus", 5)).toHaveLength(5);
  expect(made).toBeLessThan(8);
});

test("arrows go round", () => {
  expect(step(0, -1, 3)).toBe(2);
  expect(step(2, 1, 3)).toBe(0);
  expect(step(0, 1, 0)).toBe(0);
});
