import { describe, expect, it } from "vitest";
import { nameOfTarget, operationsOf, targetsOf } from "./auditobjects";
import { readAdminSearch } from "./search";

describe("targetsOf", () => {
  it("knows what ids are of", () => {
    expect(targetsOf({ cluster_id: "c", key: "k" })).toEqual([
      { field: "cluster_id", kind: "cluster", id: "c" },
      { field: "key", kind: "other", id: "k" },
    ]);
    expect(targetsOf({ object_type: "instance-pools", object_id: "p" })).toEqual([
      { field: "object_id", kind: "pool", id: "p" },
    ]);
    expect(targetsOf(undefined)).toEqual([]);
  });
});

it("names what is still there", () => {
  const names = { cluster: new Map([["c", "etl"]]), pool: new Map(), policy: new Map() };
  expect(targetsOf({ cluster_id: "c", policy_id: "p", name: "x" }).map((each) => nameOfTarget(each, names))).toEqual([
    "etl",
    "p",
    "x",
  ]);
});

it("lists operations that change something", () => {
  const paths = { "/a": { get: { operationId: "a.get" }, post: { operationId: "b.make" } }, "/b": { put: {} } };
  expect(operationsOf({ paths })).toEqual(["b.make"]);
  expect(operationsOf({})).toEqual([]);
});

it("reads the address", () => {
  expect(readAdminSearch({ tab: "audit", user: 5, object: "", q: undefined, range: "24h", other: 1 })).toEqual({
    tab: "audit",
    user: "5",
    range: "24h",
  });
  expect(readAdminSearch({ tab: "nothing" })).toEqual({});
});
