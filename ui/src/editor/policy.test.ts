import { expect, test } from "vitest";
import type { Policy } from "../api/offers";
import type { Verdict } from "./calls";
import { hint, pathOf, rulesOf, yielded } from "./policy";

const verdict = (more: Partial<Verdict>): Verdict => ({ valid: false, errors: [], locks: [], ...more });

test("a policy takes the place of what it decides, and of this page's own defaults that it refuses", () => {
  const prefilled = { num_workers: 1, node_type_id: "small" };
  const spec = { ...prefilled, autotermination_minutes: 60, cluster_name: "n" };
  const said = verdict({
    locks: [{ field: "autotermination_minutes", reason: "", value: "20" }],
    errors: [
      { field: "node_type_id", message: "" },
      { field: "cluster_name", message: "" },
    ],
  });
  expect(yielded(spec, said, prefilled)).toEqual({ num_workers: 1, cluster_name: "n" });
  expect(yielded({ ...spec, node_type_id: "chosen" }, said, prefilled).node_type_id).toBe("chosen");
});

test("the key of a map is everything after its first dot", () => {
  expect(pathOf("spark_conf.spark.sql.x")).toEqual(["spark_conf", "spark.sql.x"]);
  expect(pathOf("autoscale.max_workers")).toEqual(["autoscale", "max_workers"]);
});

test("rules are hinted at in a few words", () => {
  expect(hint({ type: "range", minValue: 1 })).toBe("Policy: at least 1");
  expect(hint({ type: "allowlist", values: ["a", 1] })).toBe("Policy: a, 1");
  expect(hint({ type: "fixed" })).toBeUndefined();
  expect(rulesOf({ definition: "{" } as Policy).size).toBe(0);
});
