import { expect, it } from "vitest";
import { readRunsSearch } from "./search";
import { attemptsOf, inLine, stateOf, type Task, tookOf, warehouseOf, workOf } from "./words";

const task = (task_key: string, attempt_number: number, more: Partial<Task> = {}) =>
  ({ task_key, attempt_number, run_id: attempt_number, ...more }) as Task;

it("says states in a word", () => {
  const word = (life_cycle_state: string, result_state?: string) =>
    stateOf({ life_cycle_state, result_state } as never);
  expect(word("RUNNING")).toEqual({ word: "Running", look: "wait" });
  expect(word("WAITING_FOR_RETRY")).toEqual({ word: "Waiting for retry", look: "wait" });
  expect(word("BLOCKED").look).toBe("off");
  expect(word("QUEUED")).toEqual({ word: "Queued", look: "off" });
  expect(word("TERMINATED", "SUCCESS").look).toBe("good");
  expect(word("TERMINATED", "CANCELED").word).toBe("Cancelled");
  expect(word("INTERNAL_ERROR", "FAILED").word).toBe("Failed");
  expect(word("SKIPPED", "UPSTREAM_FAILED").word).toBe("Skipped");
});

it("puts parameters in a line", () => {
  expect(inLine(["day=2026-01-01", "a b", "", "{{job.id}}", 'x"'])).toBe('day=2026-01-01 "a b" "" {{job.id}} "x\\""');
});

it("says what a task runs", () => {
  const wheel = { package_name: "etl", entry_point: "main", parameters: ["a"], named_parameters: { day: "1" } };
  expect(workOf(task("t", 0, { python_wheel_task: wheel }))).toEqual({
    kind: "Python wheel",
    what: "etl:main",
    parameters: ["a", "day=1"],
  });
  const condition_task = { left: "{{tasks.a.values.n}}", op: "EQUAL_TO" as const, right: "" };
  expect(workOf(task("t", 0, { condition_task })).what).toBe('{{tasks.a.values.n}} EQUAL_TO ""');
  const sql_task = { warehouse_id: "w", file: { path: "/a.sql" }, parameters: { day: "1" } };
  expect(workOf(task("t", 0, { sql_task }))).toEqual({ kind: "SQL file", what: "/a.sql", parameters: ["day=1"] });
  expect(warehouseOf(task("t", 0, { sql_task }))).toBe("w");
  expect(workOf(task("t", 0)).what).toBe("");
});

it("puts attempts together", () => {
  expect(
    attemptsOf([task("a", 1), task("b", 0), task("a", 0)]).map((each) => each.map((one) => one.attempt_number)),
  ).toEqual([[0, 1], [0]]);
  expect(tookOf({ start_time: 10, end_time: null }, 25)).toBe(15);
});

it("reads the address", () => {
  expect(readRunsSearch({ show: "all", q: 5, range: "9d" })).toEqual({ q: "5" });
});
