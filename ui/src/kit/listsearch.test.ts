import { expect, test } from "vitest";
import { readSearch } from "./listsearch";

test("what an address can say is read, and the rest is left out", () => {
  expect(readSearch({})).toEqual({});
  expect(readSearch({ tab: "pools", q: 12, sort: "-name" })).toEqual({ tab: "pools", q: "12", sort: "-name" });
  expect(readSearch({ tab: "nothing", q: "", sort: 3, other: "x" })).toEqual({});
  expect(readSearch({ state: "RUNNING" })).toEqual({ state: ["RUNNING"] });
  expect(readSearch({ state: ["Failed", "", 7], mine: true, active: false })).toEqual({
    state: ["Failed", "7"],
    mine: true,
  });
});
