import { expect, test } from "vitest";
import type { Cluster } from "../api/client";
import { countersOf, FACETS, isChosen, shows } from "./facets";

const cluster = (cluster_id: string, more: Partial<Cluster> = {}) =>
  ({ cluster_id, cluster_name: cluster_id, state: "RUNNING", creator_user_name: "ada", ...more }) as Cluster;
const ended = { state: "TERMINATED", termination_reason: { code: "INACTIVITY", type: "SUCCESS" } } as const;
const broken = {
  state: "TERMINATED",
  termination_reason: { code: "CLOUD_PROVIDER_RESOURCE_STOCKOUT", type: "CLOUD_FAILURE" },
} as Partial<Cluster>;
const all = [
  cluster("etl", { custom_tags: { team: "data" } }),
  cluster("starts", { state: "PENDING" }),
  cluster("ended", ended),
  cluster("broken", { ...broken, creator_user_name: "grace" }),
  cluster("lost", { state: "ERROR" }),
];
const shown = (search: Parameters<typeof shows>[0], me = "ada") =>
  all.filter(shows(search, me)).map((each) => each.cluster_id);

test("a failed cluster is found by what it is, also where the API calls it terminated", () => {
  expect(shown({ state: ["Failed"] })).toEqual(["broken", "lost"]);
  expect(shown({ state: ["TERMINATED"] })).toEqual(["ended", "broken"]);
  expect(shown({ state: ["Failed", "RUNNING"] })).toEqual(["etl", "broken", "lost"]);
});

test("filters of several kinds all count, and values of one are alternatives", () => {
  expect(shown({})).toHaveLength(all.length);
  expect(shown({ q: "ETL" })).toEqual(["etl"]);
  expect(shown({ mine: true }, "grace")).toEqual(["broken"]);
  expect(shown({ active: true })).toEqual(["etl", "starts"]);
  expect(shown({ tag: ["team: data"], state: ["PENDING"] })).toEqual([]);
  expect(shown({ tag: ["team: data"], state: ["PENDING", "RUNNING"] })).toEqual(["etl"]);
});

test("counters add up what their filter shows", () => {
  const counters = countersOf(all);
  expect(counters.map((each) => [each.name, each.number])).toEqual([
    ["Running", 1],
    ["Starting or changing", 1],
    ["Terminated", 2],
    ["Failed", 2],
  ]);
  for (const each of counters) expect(shown({ state: each.states })).toHaveLength(each.number);
});

test("a counter is chosen only by exactly its states", () => {
  const [running, changing] = countersOf([]) as [ReturnType<typeof countersOf>[0], ReturnType<typeof countersOf>[0]];
  expect(isChosen(running, ["RUNNING"])).toBe(true);
  expect(isChosen(running, undefined)).toBe(false);
  expect(isChosen(running, ["RUNNING", "PENDING"])).toBe(false);
  expect(isChosen(changing, ["RESTARTING", "RESIZING", "PENDING"])).toBe(true);
});

test("each facet has values for any cluster", () => {
  for (const { of } of FACETS) expect(Array.isArray(of({ cluster_id: "bare" } as Cluster))).toBe(true);
});
