import type { Warehouse } from "../api/warehouses";
import { mapOf, type Pair, pairsOf } from "../editor/pairing";

/** Workers by size, as the server has them (features/warehouses/rules.py; a test compares). */
export const SIZES = {
  "2X-Small": 1,
  "X-Small": 2,
  Small: 4,
  Medium: 8,
  Large: 16,
  "X-Large": 32,
  "2X-Large": 64,
  "3X-Large": 128,
  "4X-Large": 256,
} as const;
export type Size = keyof typeof SIZES;

export const CHANNELS = { CHANNEL_NAME_CURRENT: "Current", CHANNEL_NAME_PREVIEW: "Preview" } as const;
export const SPOT = { COST_OPTIMIZED: "Cost optimized", RELIABILITY_OPTIMIZED: "Reliability optimized" } as const;

/** A warehouse as its form has it. */
export interface Draft {
  name: string;
  size: string;
  nodeType: string;
  minutes: number | undefined;
  channel: string;
  spot: string;
  tags: Pair[];
}

export const BEGINNING: Omit<Draft, "nodeType"> = {
  name: "",
  size: "2X-Small",
  minutes: 120,
  channel: "CHANNEL_NAME_CURRENT",
  spot: "COST_OPTIMIZED",
  tags: [],
};

const NAMED = /^(?:tags\.)?([a-z_]+)/; // the field with which the server's messages begin
const FIELDS: Record<string, keyof Draft> = {
  name: "name",
  cluster_size: "size",
  node_type_id: "nodeType",
  auto_stop_mins: "minutes",
  channel: "channel",
  spot_instance_policy: "spot",
  tags: "tags",
  custom_tags: "tags",
};
const TAKEN = /^SQL warehouse with name /;

export const tagsOf = (warehouse: Warehouse): Record<string, string> =>
  Object.fromEntries((warehouse.tags.custom_tags ?? []).map(({ key = "", value = "" }) => [key, value]));

export const draftOf = (warehouse: Warehouse): Draft => ({
  name: warehouse.name,
  size: warehouse.cluster_size,
  nodeType: warehouse.node_type_id,
  minutes: warehouse.auto_stop_mins,
  channel: warehouse.channel.name ?? BEGINNING.channel,
  spot: warehouse.spot_instance_policy,
  tags: pairsOf(tagsOf(warehouse)),
});

/** What is saved of a draft. */
export const wanted = (draft: Draft) => ({
  name: draft.name,
  cluster_size: draft.size,
  ...(draft.nodeType && { node_type_id: draft.nodeType }), // else the workspace's choice
  ...(draft.minutes !== undefined && { auto_stop_mins: draft.minutes }),
  channel: { name: draft.channel as keyof typeof CHANNELS },
  spot_instance_policy: draft.spot as keyof typeof SPOT,
  tags: { custom_tags: Object.entries(mapOf(draft.tags) ?? {}).map(([key, value]) => ({ key, value })) },
});

/** The input that a message of the server is about. */
export const inputOf = (message: string): keyof Draft | undefined =>
  TAKEN.test(message) ? "name" : FIELDS[NAMED.exec(message)?.[1] ?? ""];

/** Nodes of a size: its workers and the driver. */
export const nodesOf = (size: string) => (size in SIZES ? SIZES[size as Size] + 1 : undefined);
