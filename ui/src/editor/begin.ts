import { Value } from "../lib/value";
import type { Library } from "./calls";
import type { Spec } from "./spec";
import type { Offers } from "./state";

/** Runtimes by their keys, as versions. */
export const newestFirst = (offers: Offers) =>
  [...offers.runtimes].sort(([one], [other]) => other.localeCompare(one, undefined, { numeric: true }));

/** What a new cluster begins with: the newest long-term runtime, and a small node of the kind that is listed first. */
export function beginning(offers: Offers, user: string): Spec {
  const runtimes = newestFirst(offers);
  const runtime = runtimes.find(([, label]) => label.includes("LTS")) ?? runtimes[0];
  const usual = offers.nodeTypes.filter((each) => !each.is_deprecated && each.num_gpus === 0);
  const node = usual.find((each) => each.num_cores >= 2) ?? usual[0];
  const name = user.split("@")[0];
  return {
    ...(name ? { cluster_name: `${name}'s cluster` } : {}),
    ...(runtime ? { spark_version: runtime[0] } : {}),
    ...(node ? { node_type_id: node.node_type_id } : {}),
    num_workers: 1,
  };
}

interface Carried {
  id?: string; // the cluster that it is for; undefined: a new one
  spec?: Spec;
  libraries: Library[];
  problem?: string;
}

/** What was typed on one page and is gone on with on another. */
export const carried = new Value<Carried | null>(null);
