import { expect, test } from "vitest";
import type { Pool } from "../api/offers";
import { draftOf, inputOf, wanted } from "./draft";

const POOL = {
  instance_pool_id: "p",
  instance_pool_name: "warm",
  node_type_id: "small",
  min_idle_instances: 0,
  idle_instance_autotermination_minutes: 60,
  custom_tags: { team: "x" },
  preloaded_spark_versions: ["17.3.x"],
} as unknown as Pool;

test("a pool that is opened and saved stays as it is", () => {
  expect(wanted(draftOf(POOL))).toEqual({
    instance_pool_name: "warm",
    node_type_id: "small",
    min_idle_instances: 0,
    max_capacity: null,
    idle_instance_autotermination_minutes: 60,
    custom_tags: { team: "x" },
    preloaded_spark_versions: ["17.3.x"],
  });
});

test("a message belongs to the input of its field", () => {
  expect(inputOf("max_capacity is 0; it must be positive.")).toBe("most");
  expect(inputOf("The pool is full.")).toBeUndefined();
});
