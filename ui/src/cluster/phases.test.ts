import { expect, it } from "vitest";
import { type Phase, took, wanted } from "./phases";

const phase = (fields: Partial<Phase>): Phase => ({
  name: "starting_services",
  status: "completed",
  started_at: "2026-01-01T00:00:00Z",
  finished_at: "2026-01-01T00:01:05Z",
  message: "",
  ...fields,
});

it("measures a phase, also one that goes on", () => {
  expect(took(phase({}), 0)).toBe("1 m 5 s");
  const now = Date.parse("2026-01-01T00:00:09Z");
  expect(took(phase({ status: "in_progress", finished_at: null }), now)).toBe("9 s");
  expect(took(phase({ status: "pending", started_at: null, finished_at: null }), now)).toBe("");
});

it("leaves out what nobody has asked for", () => {
  expect(wanted(phase({}))).toBe(true);
  expect(wanted(phase({ message: "no snapshot was asked for" }))).toBe(false);
  expect(wanted(phase({ name: "cleaning_up" }))).toBe(false);
  expect(wanted(phase({ name: "restoring_snapshot", status: "pending" }))).toBe(false);
  expect(wanted(phase({ name: "restoring_snapshot", status: "completed" }))).toBe(true);
});
