import { expect, it } from "vitest";
import { BEGINNING, type Draft, draftOf, firstWork, inputOf, mistakeOf, removed, taskOf, wanted, zones } from "./draft";
import type { Job } from "./words";

const draft = (more: Partial<Draft> = {}): Draft => ({
  ...BEGINNING,
  zone: "UTC",
  work: firstWork({ num_workers: 1 }),
  ...more,
});

it("saves what was read as it was", () => {
  const settings = {
    name: "nightly",
    description: "",
    tags: { team: "data" },
    schedule: { quartz_cron_expression: "0 0 6 * * ?", timezone_id: "Europe/Berlin", pause_status: "PAUSED" as const },
    max_concurrent_runs: 3,
    queue: { enabled: true },
    parameters: [{ name: "day", default: "monday" }],
    tasks: [{ task_key: "a", existing_cluster_id: "c" }],
    job_clusters: [],
  };
  expect(wanted(draftOf({ settings } as unknown as Job, "UTC"))).toEqual(settings);
});

it("takes away the schedule that is no longer wanted", () => {
  expect(removed(wanted(draft({ when: "none" })))).toEqual([
    ...["tasks", "job_clusters", "schedule", "trigger", "continuous"],
    ...["webhook_notifications", "email_notifications", "health"],
  ]);
  expect(removed(wanted(draft({ when: "cron" })))).not.toContain("schedule");
  const periodic = wanted(draft({ when: "periodic", interval: 2, unit: "HOURS" }));
  expect(periodic.trigger).toEqual({ periodic: { interval: 2, unit: "HOURS" }, pause_status: "UNPAUSED" });
});

it("finds what cannot be sent", () => {
  expect(mistakeOf(draft())).toBeUndefined();
  expect(mistakeOf(draft({ work: "[]" }))).toBeDefined();
  expect(mistakeOf(draft({ work: '{"tasks": [' }))).toBeDefined();
  expect(mistakeOf(draft({ work: '{"name": "a"}' }))).toContain("name");
});

it.each([
  ["quartz_cron_expression '1' must have six fields.", "cron"],
  ["schedule comes more often than every 10 seconds.", "cron"],
  ["timezone_id 'x' is no time zone.", "zone"],
  ["trigger.periodic.interval is 0; it must be between 1 and 1000.", "interval"],
  ["trigger.file_arrival.url 'x' is not supported", "url"],
  ["trigger.table_update.table_names must be 1 to 10 tables.", "tables"],
  ["webhook_notifications: notification destination 'x' does not exist.", "told"],
  ["email_notifications.on_failure: 'x' is not an e-mail address", "told"],
  ["health: value is 0", "warnAfter"],
  ["max_concurrent_runs is 2000.", "concurrent"],
  ["parameters.name '?' is not valid", "parameters"],
  ["Task load: it says nothing to run.", "work"],
  ["Task key load is given twice", "work"],
  ["tasks[0].task_key is missing", "work"],
  ["new_settings.tasks[0].task_key is missing", "work"],
  ["job_clusters must have different keys", "work"],
  ["python_file 'a' cannot be run", "work"],
  ["tags has 26 tags", "tags"],
  ["The workspace has 12000 jobs", undefined],
])("places %s", (message, input) => {
  expect(inputOf(message)).toBe(input);
});

it("finds the task of a message", () => {
  expect([taskOf("Task load: no"), taskOf("Task key load is"), taskOf("tasks is empty")]).toEqual([
    "load",
    "load",
    undefined,
  ]);
});

it("offers UTC first", () => {
  expect(zones()[0]).toBe("UTC");
  expect(new Set(zones()).size).toBe(zones().length);
});
