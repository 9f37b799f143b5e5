import { expect, it } from "vitest";
import { readJobSearch, readJobsSearch } from "./search";
import { isLocked, paused, retriesOf, scheduleOf, tagTexts } from "./words";

const CRON = { quartz_cron_expression: "0 0 6 * * ?", timezone_id: "Europe/Berlin" };

it("says when a job runs", () => {
  expect(scheduleOf({ schedule: CRON })).toEqual({ text: "Every day at 06:00 (Europe/Berlin)", paused: false });
  const odd = { ...CRON, quartz_cron_expression: "1,2 0 6 * * ?", pause_status: "PAUSED" as const };
  expect(scheduleOf({ schedule: odd })).toEqual({ text: "1,2 0 6 * * ? (Europe/Berlin)", paused: true });
  expect(scheduleOf({ trigger: { periodic: { interval: 1, unit: "HOURS" } } })?.text).toBe("Every hour");
  expect(scheduleOf({ trigger: { periodic: { interval: 2, unit: "WEEKS" } } })?.text).toBe("Every 2 weeks");
  expect(scheduleOf({})).toBeUndefined();
});

it("pauses what there is", () => {
  expect(paused({ schedule: CRON }, true)).toEqual({ schedule: { ...CRON, pause_status: "PAUSED" } });
  const periodic = { interval: 1, unit: "DAYS" as const };
  const trigger = { periodic, pause_status: "PAUSED" as const };
  expect(paused({ trigger }, false)).toEqual({ trigger: { periodic, pause_status: "UNPAUSED" } });
});

it("leaves jobs of bundles alone", () => {
  expect(isLocked({ edit_mode: "UI_LOCKED" })).toBe(true);
  expect(isLocked({ deployment: { kind: "BUNDLE" } })).toBe(true);
  expect(isLocked({ edit_mode: "EDITABLE" })).toBe(false);
});

it("says tags and retries", () => {
  expect(tagTexts({ tags: { team: "data", nightly: "" } })).toEqual(["team: data", "nightly"]);
  expect([0, 3, -1].map((max_retries) => retriesOf({ task_key: "a", max_retries }))).toEqual([
    "",
    "3",
    "until it succeeds",
  ]);
});

it("reads the address", () => {
  expect(readJobsSearch({ q: 5, sort: "-name", more: 1 })).toEqual({ q: "5", sort: "-name" });
  expect(readJobSearch({ tab: "tasks" })).toEqual({ tab: "tasks" });
  expect(readJobSearch({ tab: "other" })).toEqual({});
});
