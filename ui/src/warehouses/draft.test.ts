import { expect, test } from "vitest";
import type { Warehouse } from "../api/warehouses";
import { BEGINNING, draftOf, inputOf, nodesOf, wanted } from "./draft";

const WAREHOUSE = {
  name: "reports",
  cluster_size: "Small",
  node_type_id: "i3.xlarge",
  auto_stop_mins: 0,
  channel: { name: "CHANNEL_NAME_PREVIEW" },
  spot_instance_policy: "RELIABILITY_OPTIMIZED",
  tags: { custom_tags: [{ key: "team", value: "x" }] },
} as unknown as Warehouse;

test("a warehouse that is opened and saved stays as it is", () => {
  const { name, cluster_size, node_type_id, auto_stop_mins, channel, spot_instance_policy, tags } = WAREHOUSE;
  expect(wanted(draftOf(WAREHOUSE))).toEqual({
    name,
    cluster_size,
    node_type_id,
    auto_stop_mins,
    channel,
    spot_instance_policy,
    tags,
  });
});

test("what is left open is the server's choice", () => {
  const sent = wanted({ ...BEGINNING, nodeType: "", minutes: undefined });
  expect(sent).not.toHaveProperty("node_type_id");
  expect(sent).not.toHaveProperty("auto_stop_mins");
});

test("a message belongs to the input of its field", () => {
  expect(inputOf("auto_stop_mins is 3; it must be 0 or at least 10.")).toBe("minutes");
  expect(inputOf("SQL warehouse with name `reports` already exists")).toBe("name");
  expect(inputOf("The workspace is full.")).toBeUndefined();
});

test("a size has a driver beside its workers", () => {
  expect(nodesOf("2X-Small")).toBe(2);
  expect(nodesOf("4X-Large")).toBe(257);
  expect(nodesOf("Huge")).toBeUndefined();
});
