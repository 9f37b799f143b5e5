import { expect, test } from "vitest";
import { changes, leaves, merge, put, type Spec, same, shown, specOf, write } from "./spec";

const BASE: Spec = { cluster_name: "a", num_workers: 2, spark_conf: { x: "1", y: "1" }, custom_tags: { team: "t" } };

test("what only one has changed is taken, also in one map", () => {
  const mine: Spec = { ...BASE, spark_conf: { x: "2", y: "1" } };
  const theirs: Spec = { ...BASE, spark_conf: { x: "1" }, custom_tags: { team: "t", more: "m" } };
  expect(merge(BASE, mine, theirs)).toEqual({
    merged: { ...BASE, spark_conf: { x: "2" }, custom_tags: { team: "t", more: "m" } },
    conflicts: [],
  });
});

test("where both have changed a field, mine stays and the conflict is told", () => {
  const { merged, conflicts } = merge(BASE, { ...BASE, cluster_name: "m" }, { ...BASE, cluster_name: "t" });
  expect(merged.cluster_name).toBe("m");
  expect(conflicts).toEqual([{ path: ["cluster_name"], mine: "m", theirs: "t" }]);
  expect(merge(BASE, { ...BASE, cluster_name: "x" }, { ...BASE, cluster_name: "x" }).conflicts).toEqual([]);
});

test("a size is one field: a range and a number are never mixed", () => {
  const { num_workers: _, ...rest } = BASE;
  const scaled: Spec = { ...rest, autoscale: { min_workers: 1, max_workers: 4 } };
  expect(merge(BASE, { ...BASE, cluster_name: "m" }, scaled).merged).toEqual({ ...scaled, cluster_name: "m" });
  const both = merge(BASE, { ...BASE, num_workers: 5 }, scaled);
  expect(both.merged).toEqual({ ...BASE, num_workers: 5 });
  const [conflict] = both.conflicts;
  expect(put(both.merged, conflict?.path ?? [], conflict?.theirs)).toEqual(scaled);
});

test("merging twice with the same changes nothing", () => {
  const mine: Spec = { ...BASE, num_workers: 7 };
  const theirs: Spec = { ...BASE, custom_tags: { team: "u" } };
  const { merged } = merge(BASE, mine, theirs);
  expect(merge(theirs, merged, theirs)).toEqual({ merged, conflicts: [] });
});

test("what is empty is absent", () => {
  expect(write({ spark_conf: { a: "1" }, cluster_name: "n" }, ["spark_conf", "a"], undefined)).toEqual({
    cluster_name: "n",
  });
  expect(leaves({ spark_conf: {}, init_scripts: [], num_workers: 0 }).size).toBe(1);
  expect(changes({ spark_conf: {} }, {})).toEqual([]);
});

test("lists are compared with lists", () => {
  expect(same([], {})).toBe(false);
  expect(same([1, { a: 2 }], [1, { a: 2 }])).toBe(true);
  expect(same({ a: undefined }, {})).toBe(false);
});

test("a value is shown in one line", () => {
  expect(shown({ autoscale: { min_workers: 1, max_workers: 3 } })).toBe("1 to 3 workers");
  expect(shown({ is_single_node: true })).toBe("single node");
  expect(shown(["a", { b: 1 }])).toBe('1. a\n2. {"b":1}');
});

test("a workspace that does not tell the specification gives the values in effect", () => {
  const cluster = { cluster_id: "1", state: "RUNNING", num_workers: 1, node_type_id: "t", instance_pool_id: "p" };
  expect(specOf(cluster as Parameters<typeof specOf>[0])).toEqual({ num_workers: 1, instance_pool_id: "p" });
});
