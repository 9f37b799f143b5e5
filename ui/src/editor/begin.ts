import type { Cluster } from "../api/client";
import { isOwned } from "../clusters/facts";
import { Value } from "../lib/value";
import type { Library } from "./calls";
import type { Spec } from "./spec";
import type { Offers } from "./state";

/** Runtimes by their keys, as versions. */
export const newestFirst = (offers: Offers) =>
  [...offers.runtimes].sort(([one], [other]) => other.localeCompare(one, undefined, { numeric: true }));

/** Whether a runtime's key names the native engine, which others have by runtime_engine. */
export const isPhoton = (key: string) => key.includes("-photon-");

/** What a new cluster begins with: the newest long-term runtime, and a small node of the kind that is listed first. */
export function beginning(offers: Offers, user: string): Spec {
  const runtimes = newestFirst(offers).filter(([key]) => !isPhoton(key));
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

/** The cluster that a user has made or started last; undefined if there is none. */
export function lastOf(clusters: Cluster[], user: string): Cluster | undefined {
  const own = clusters.filter((each) => each.creator_user_name === user && !isOwned(each));
  return own.sort((one, other) => (other.start_time ?? 0) - (one.start_time ?? 0))[0];
}

const COPY = / \(copy(?: (\d+))?\)$/;

/** A name for a copy that no other has: "etl (copy)", "etl (copy 2)". */
export function copyName(name: string, taken: Iterable<string>): string {
  const known = new Set(taken);
  const bare = name.replace(COPY, "");
  for (let number = 1; ; number++) {
    const made = `${bare} (copy${number === 1 ? "" : ` ${number}`})`;
    if (!known.has(made)) return made;
  }
}

interface Carried {
  id?: string; // the cluster that it is for; undefined: a new one
  spec?: Spec;
  libraries: Library[];
  problem?: string;
}

/** What was typed on one page and is gone on with on another. */
export const carried = new Value<Carried | null>(null);
