import { expect, it } from "vitest";
import { NO_TRIGGER, type Trigger, triggerInWords, triggerOf, wantedTrigger } from "./trigger";

const UNPAUSED = { pause_status: "UNPAUSED" as const };
const files = {
  trigger: { file_arrival: { url: "/Volumes/a/b/c/", wait_after_last_change_seconds: 60 }, ...UNPAUSED },
};
const tables = {
  trigger: { table_update: { table_names: ["m.d.a", "m.d.b"], condition: "ALL_UPDATED" as const }, ...UNPAUSED },
};
const continuous = { continuous: { pause_status: "PAUSED" as const } };
const periodic = { trigger: { periodic: { interval: 2, unit: "HOURS" as const }, ...UNPAUSED } };
const schedule = { schedule: { quartz_cron_expression: "0 0 6 * * ?", timezone_id: "UTC", ...UNPAUSED } };

const once = { continuous: { ...UNPAUSED, task_retry_mode: "NEVER" as const } };

it.each([files, tables, continuous, once, periodic, schedule, {}])("saves what was read as it was: %j", (settings) => {
  expect(wantedTrigger(triggerOf(settings, "UTC"))).toEqual(settings);
});

it("reads names of tables with anything between them", () => {
  const draft: Trigger = { ...NO_TRIGGER, zone: "UTC", when: "tables", tables: " m.d.a, m.d.b\nm.d.c " };
  expect(wantedTrigger(draft).trigger?.table_update?.table_names).toEqual(["m.d.a", "m.d.b", "m.d.c"]);
});

it("says what begins a job", () => {
  expect([files, tables, continuous, periodic, {}].map((each) => triggerInWords(each))).toEqual([
    "When files arrive in /Volumes/a/b/c/",
    "When all of m.d.a, m.d.b are updated",
    "Continuous",
    "Every 2 hours",
    undefined,
  ]);
});
