import { expect, test } from "vitest";
import type { Cluster } from "../api/client";
import { beginning, copyName, lastOf } from "./begin";
import type { Offers } from "./state";

const OFFERS = {
  nodeTypes: [
    { node_type_id: "old", num_cores: 4, num_gpus: 0, is_deprecated: true },
    { node_type_id: "gpu", num_cores: 4, num_gpus: 1 },
    { node_type_id: "tiny", num_cores: 1, num_gpus: 0 },
    { node_type_id: "small", num_cores: 2, num_gpus: 0 },
  ],
  runtimes: new Map([
    ["9.1.x", "9.1 LTS"],
    ["18.0.x", "18.0"],
    ["17.3.x", "17.3 LTS"],
  ]),
} as unknown as Offers;

test("a new cluster has the newest long-term runtime and a small node", () => {
  expect(beginning(OFFERS, "ann@example.com")).toEqual({
    cluster_name: "ann's cluster",
    spark_version: "17.3.x",
    node_type_id: "small",
    num_workers: 1,
  });
  expect(beginning({ ...OFFERS, nodeTypes: [], runtimes: new Map() }, "")).toEqual({ num_workers: 1 });
});

test("a copy has a name of its own", () => {
  expect(copyName("etl", [])).toBe("etl (copy)");
  expect(copyName("etl (copy)", ["etl (copy)"])).toBe("etl (copy 2)");
  expect(copyName("etl (copy 7)", ["etl (copy)", "etl (copy 2)"])).toBe("etl (copy 3)");
});

test("the last cluster is one's own, and no job's", () => {
  const made = (cluster_id: string, creator_user_name: string, start_time: number, cluster_source = "UI") =>
    ({ cluster_id, creator_user_name, start_time, cluster_source }) as Cluster;
  const clusters = [made("1", "ann", 10), made("2", "ann", 30), made("3", "ann", 40, "JOB"), made("4", "bob", 50)];
  expect(lastOf(clusters, "ann")?.cluster_id).toBe("2");
  expect(lastOf(clusters, "eve")).toBeUndefined();
});
