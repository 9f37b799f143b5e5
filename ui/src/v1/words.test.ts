import { expect, it } from "vitest";
import { readV1Search } from "./search";
import { type Limits, limitsOf, updatesOf } from "./words";

const limits: Limits = {
  enabled: true,
  idle_minutes: 30,
  max_runtime_minutes: null,
  at: null,
  max_cost: 2.5,
  cost_since_start: 0,
  remaining_seconds: { idle_minutes: 90 },
};

it("shows limits that are set and those that are not", () => {
  expect(limitsOf(limits).map((each) => each.value)).toEqual(["30 min", "", "", "2.5"]);
  expect(limitsOf(limits)[0]?.remaining).toBe(90);
  expect(limitsOf({ ...limits, enabled: false }).every((each) => each.value === "")).toBe(true);
});

it("sends what has changed", () => {
  expect(updatesOf({ idle_minutes: 30, max_runtime_minutes: 60, max_cost: "" }, limits)).toEqual({
    max_runtime_minutes: 60,
    max_cost: null,
  });
});

it("reads the address", () => expect(readV1Search({ tab: "ports", cluster: 7 })).toEqual({ cluster: "7" }));
