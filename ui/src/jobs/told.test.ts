import { expect, it } from "vitest";
import { NOBODY, tellingOf, told, wantedTelling } from "./told";

it("saves what was read as it was", () => {
  const settings = {
    webhook_notifications: { on_start: [{ id: "a" }], on_failure: [{ id: "a" }, { id: "b" }] },
    email_notifications: { on_failure: ["me@example.com"], no_alert_for_skipped_runs: true },
    health: { rules: [{ metric: "RUN_DURATION_SECONDS", op: "GREATER_THAN", value: 60 }] },
  };
  expect(wantedTelling(tellingOf(settings))).toEqual(settings);
  expect(wantedTelling(tellingOf({}))).toEqual({});
});

it("leaves out rows without a receiver", () => {
  const rows = [told("on_start", " "), told("on_success", " me@example.com ")];
  expect(wantedTelling({ ...NOBODY, told: rows })).toEqual({ email_notifications: { on_success: ["me@example.com"] } });
});
