import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { ApiError, api, body, type Cluster, isGone } from "./client";
import { early, LIST } from "./early";
import { knownGone, markGone } from "./gone";
import { offered } from "./session";

const SEPARATE = 20; // changed clusters that are read one by one; more are read as a list

export const clustersQuery = queryOptions({
  queryKey: ["clusters"],
  queryFn: async () => {
    const first = await early(LIST)?.catch(() => undefined); // what went wrong is said when it is asked again
    const found = first?.ok ? ((await first.json()) as { clusters?: unknown[] }) : await body(api.GET(LIST));
    return (found.clusters ?? []) as Cluster[];
  },
});

export const pinnedQuery = queryOptions({
  queryKey: ["pinned"],
  queryFn: async () => {
    // Version 2.0 of a workspace elsewhere may not know the filter. At most 100 clusters are pinned.
    const query = { "filter_by.is_pinned": true, page_size: 100 };
    const asked = api.GET("/api/2.1/clusters/list", { params: { query } });
    return new Set(((await body(asked)).clusters ?? []).map((each) => each.cluster_id));
  },
});

/** The cluster. Of one that is gone, the server is asked once. */
async function read(id: string): Promise<Cluster> {
  try {
    return (await body(api.GET("/api/2.1/clusters/get", { params: { query: { cluster_id: id } } }))) as Cluster;
  } catch (error) {
    if (isGone(error)) markGone(id, error.message);
    throw error;
  }
}

export const clusterQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id],
    queryFn: () => read(id),
  });

export const hasPrices = () => offered("/api/2.1/spend/prices");

export const pricesQuery = queryOptions({
  queryKey: ["prices"],
  enabled: hasPrices,
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: async () => {
    const found = await body(api.GET("/api/2.1/spend/prices"));
    return {
      currency: found.currency,
      perHour: new Map(found.node_types.map((each) => [each.node_type_id, each.price_per_hour])),
    };
  },
});

export const runtimesQuery = queryOptions({
  queryKey: ["runtimes"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: async () => {
    const found = await body(api.GET("/api/2.1/clusters/spark-versions"));
    return new Map((found.versions ?? []).map((each) => [each.key, each.name]));
  },
});

export const sparkVersionsOf = (names: Map<string, string> | undefined, key: string | null | undefined) =>
  (key && names?.get(key)) || key || "";

let turns = 0;
const latest = new Map<string, number>(); // by cluster: the turn of its last reading

/** Reads clusters again that have changed. An answer that a later reading has overtaken is dropped: the cluster may be gone since. */
export async function refresh(queries: QueryClient, ids: string[]) {
  void queries.invalidateQueries({ queryKey: ["pinned"] });
  const changed = new Set(ids);
  void queries.invalidateQueries({
    queryKey: ["cluster"], // and what else can be known of it, unless it is gone
    predicate: ({ queryKey: [, id, ...more] }) =>
      typeof id === "string" && changed.has(id) && !(more.length > 0 && knownGone(id)),
  });
  const list = queries.getQueryData(clustersQuery.queryKey);
  if (list === undefined || ids.length > SEPARATE) return queries.invalidateQueries({ queryKey: ["clusters"] });
  const turn = ++turns;
  for (const id of ids) latest.set(id, turn);
  const answers = await Promise.all(ids.map(one));
  // A list that is on its way may be from before the change.
  await queries
    .getQueryCache()
    .find(clustersQuery)
    ?.promise?.catch(() => undefined);
  const found = answers.map((each, at) => (latest.get(ids[at] ?? "") === turn ? each : undefined));
  queries.setQueryData(clustersQuery.queryKey, (old) => {
    if (old === undefined) return old;
    const fresh = new Map(ids.map((id, at) => [id, found[at]]));
    const known = new Set(old.map((each) => each.cluster_id));
    const added = found.filter((each): each is Cluster => each != null && !known.has(each.cluster_id));
    const kept = old.flatMap((each) => {
      const now = fresh.get(each.cluster_id);
      return now === undefined ? [each] : now === null ? [] : [now];
    });
    return [...added, ...kept];
  });
}

export async function refreshAll(queries: QueryClient) {
  await queries.invalidateQueries();
}

/** The cluster; null if it is gone; undefined if that cannot be told now. */
async function one(id: string): Promise<Cluster | null | undefined> {
  try {
    return await read(id);
  } catch (error) {
    return isGone(error) || (error instanceof ApiError && error.status === 403) ? null : undefined;
  }
}
