import { expect, it } from "vitest";
import { type ClusterEvent, describe, lookOf } from "./eventwords";

const event = (type: string, details: object = {}) =>
  ({ cluster_id: "c", timestamp: 1, type, details }) as ClusterEvent;

it("says a change of size in one line", () => {
  const details = { current_num_workers: 2, target_num_workers: 4, cause: "AUTOSCALE" };
  expect(describe(event("RESIZING", details))).toBe("2 → 4 workers by autoscaling");
  expect(describe(event("RUNNING", { current_num_workers: 3 }))).toBe("3 workers");
  expect(describe(event("CREATING", { cluster_size: { autoscale: { min_workers: 1, max_workers: 2 } } }))).toBe(
    "1–2 workers",
  );
});

it("names the fields of an edit", () => {
  const details = {
    previous_attributes: { cluster_name: "a", spark_version: "1" },
    attributes: { cluster_name: "b", spark_version: "1" },
    user: "ada",
  };
  expect(describe(event("EDITED", details))).toBe("Changed cluster_name · by ada");
});

it("counts scripts that have failed", () => {
  const init_scripts = {
    global: [{ status: "SUCCEEDED" }],
    cluster: [{ status: "FAILED_EXECUTION" }, { status: null }],
  };
  expect(describe(event("INIT_SCRIPTS_FINISHED", { init_scripts }))).toBe("3 init scripts, 1 failed");
});

it("looks bad where something went wrong", () => {
  expect(lookOf(event("NODES_LOST"))).toBe("bad");
  expect(lookOf(event("TERMINATING", { reason: { code: "X", type: "CLIENT_ERROR" } }))).toBe("bad");
  expect(lookOf(event("TERMINATING", { reason: { code: "X", type: "SUCCESS" } }))).toBe("off");
  expect(lookOf(event("RUNNING"))).toBe("good");
});
