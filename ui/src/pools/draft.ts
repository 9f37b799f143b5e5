import type { Pool } from "../api/offers";
import { mapOf, type Pair, pairsOf } from "../editor/pairing";
import { runtimeOf } from "./facts";

/** A pool as its form has it. */
export interface Draft {
  name: string;
  nodeType: string;
  runtime: string;
  least: number | undefined;
  most: number | undefined;
  minutes: number | undefined;
  tags: Pair[];
}

const NAMED = /^([a-z_]+)/; // the field with which the server's messages begin
const FIELDS: Record<string, keyof Draft> = {
  instance_pool_name: "name",
  node_type_id: "nodeType",
  preloaded_spark_versions: "runtime",
  min_idle_instances: "least",
  max_capacity: "most",
  idle_instance_autotermination_minutes: "minutes",
  custom_tags: "tags",
};

export const draftOf = (pool: Pool): Draft => ({
  name: pool.instance_pool_name,
  nodeType: pool.node_type_id,
  runtime: runtimeOf(pool),
  least: pool.min_idle_instances ?? undefined,
  most: pool.max_capacity ?? undefined,
  minutes: pool.idle_instance_autotermination_minutes ?? undefined,
  tags: pairsOf(pool.custom_tags),
});

/** What is saved of a draft. */
export const wanted = (draft: Draft) => ({
  instance_pool_name: draft.name,
  node_type_id: draft.nodeType,
  min_idle_instances: draft.least ?? null,
  max_capacity: draft.most ?? null,
  idle_instance_autotermination_minutes: draft.minutes ?? null,
  custom_tags: mapOf(draft.tags),
  preloaded_spark_versions: draft.runtime ? [draft.runtime] : null,
});

/** The input that a message of the server is about. */
export const inputOf = (message: string): keyof Draft | undefined => FIELDS[NAMED.exec(message)?.[1] ?? ""];
