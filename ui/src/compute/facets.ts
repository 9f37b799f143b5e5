import type { Cluster } from "../api/client";
import { accessOf, active, failed, nameOf, tagsOf } from "../clusters/facts";
import type { Facet, ListSearch } from "../kit/listsearch";

/** Beside the API's states: a cluster that ended because something went wrong is TERMINATED there. */
export const FAILED = "Failed";

interface FacetOf {
  facet: Facet;
  label: string;
  of: (cluster: Cluster) => string[];
}

export const FACETS: FacetOf[] = [
  { facet: "state", label: "State", of: (each) => [each.state ?? "", ...(failed(each) ? [FAILED] : [])] },
  { facet: "access", label: "Access mode", of: (each) => [accessOf(each)] },
  { facet: "runtime", label: "Runtime", of: (each) => [each.spark_version ?? ""] },
  { facet: "creator", label: "Creator", of: (each) => [each.creator_user_name ?? ""] },
  { facet: "policy", label: "Policy", of: (each) => [each.policy_id ?? ""] },
  { facet: "pool", label: "Pool", of: (each) => [each.instance_pool_id ?? ""] },
  { facet: "tag", label: "Tag", of: tagsOf },
];

/** Whether the list shows a cluster. */
export function shows(search: ListSearch, me: string) {
  const text = (search.q ?? "").toLowerCase();
  const wanted = FACETS.filter(({ facet }) => search[facet] !== undefined);
  return (cluster: Cluster) =>
    (text === "" || nameOf(cluster).toLowerCase().includes(text) || cluster.cluster_id.includes(text)) &&
    (!search.mine || cluster.creator_user_name === me) &&
    (!search.active || active(cluster)) &&
    wanted.every(({ facet, of }) => of(cluster).some((value) => search[facet]?.includes(value)));
}

export interface StateCounter {
  name: string;
  states: string[]; // that the list shows once it is chosen
  number: number;
}

const COUNTED: [name: string, ...states: string[]][] = [
  ["Running", "RUNNING"],
  ["Starting or changing", "PENDING", "RESIZING", "RESTARTING"],
  ["Terminated", "TERMINATED"],
  [FAILED, FAILED],
];

/** How many clusters there are in which states. */
export function countersOf(clusters: Cluster[]): StateCounter[] {
  const numbers = new Map<string, number>();
  const [{ of }] = FACETS as [FacetOf];
  for (const cluster of clusters) for (const state of of(cluster)) numbers.set(state, (numbers.get(state) ?? 0) + 1);
  return COUNTED.map(([name, ...states]) => ({
    name,
    states,
    number: states.reduce((sum, state) => sum + (numbers.get(state) ?? 0), 0),
  }));
}

/** Whether the filter of states is that of a counter. */
export const isChosen = ({ states }: StateCounter, chosen: string[] = []) =>
  states.length === chosen.length && states.every((each) => chosen.includes(each));
