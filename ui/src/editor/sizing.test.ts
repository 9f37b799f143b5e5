import { expect, test } from "vitest";
import { resized, sizingOf } from "./sizing";
import type { Spec } from "./spec";

test("a size becomes one of another kind, and its numbers are kept where they can be", () => {
  const fixed: Spec = { num_workers: 3 };
  expect(resized(fixed, "autoscale")).toEqual({ autoscale: { min_workers: 3, max_workers: 12 } });
  expect(resized(resized(fixed, "autoscale"), "fixed")).toEqual(fixed);
  expect(resized({ num_workers: 0 }, "autoscale")).toEqual({ autoscale: { min_workers: 1, max_workers: 4 } });
});

test("a single node is one in both dialects, and leaves nothing behind", () => {
  const older: Spec = {
    num_workers: 0,
    spark_conf: { "spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]", "a.b": "1" },
    custom_tags: { ResourceClass: "SingleNode", team: "x" },
  };
  const newer = resized({ num_workers: 2 }, "single");
  expect([older, newer].map(sizingOf)).toEqual(["single", "single"]);
  expect(resized(older, "fixed")).toEqual({ num_workers: 1, spark_conf: { "a.b": "1" }, custom_tags: { team: "x" } });
  expect(resized(newer, "fixed")).toEqual({ num_workers: 1 });
});
