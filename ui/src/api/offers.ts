import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { api, body } from "./client";
import type { components } from "./schema";
import { offered } from "./session";

/** What clusters can be made of, and by which names people know it. */
export type NodeType = components["schemas"]["NodeTypeView"];
export type Policy = components["schemas"]["PolicyView"];
export type Pool = components["schemas"]["InstancePoolView"];
export type PoolInstance = components["schemas"]["PoolInstance"];
export type PoolDetails = components["schemas"]["PoolDetails"];

export const nodeTypesQuery = queryOptions({
  queryKey: ["node-types"],
  staleTime: 60_000,
  queryFn: async () => (await body(api.GET("/api/2.1/clusters/list-node-types"))).node_types ?? [],
});

export const hasCapacity = () => offered("/api/2.1/machine");

/** What the providers have room for; administrators only. */
export const capacityQuery = queryOptions({
  queryKey: ["machine"],
  enabled: hasCapacity,
  staleTime: 10_000,
  queryFn: () => body(api.GET("/api/2.1/machine")),
});

export const policiesQuery = queryOptions({
  queryKey: ["policies"],
  queryFn: async () => (await body(api.GET("/api/2.0/policies/clusters/list"))).policies ?? [],
});

export const policyQuery = (id: string) =>
  queryOptions({
    queryKey: ["policy", id],
    queryFn: () => body(api.GET("/api/2.0/policies/clusters/get", { params: { query: { policy_id: id } } })),
  });

export const familiesQuery = queryOptions({
  queryKey: ["policy-families"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: async () => (await body(api.GET("/api/2.0/policy-families"))).policy_families ?? [],
});

/** Reads policies again that have changed. */
export async function refreshPolicies(queries: QueryClient) {
  void queries.invalidateQueries({ queryKey: ["policy"] });
  await queries.invalidateQueries({ queryKey: ["policies"] });
}

export const poolsQuery = queryOptions({
  queryKey: ["pools"],
  queryFn: async () => (await body(api.GET("/api/2.0/instance-pools/list"))).instance_pools ?? [],
});

export const poolQuery = (id: string) =>
  queryOptions({
    queryKey: ["pool", id],
    queryFn: () => body(api.GET("/api/2.0/instance-pools/get", { params: { query: { instance_pool_id: id } } })),
  });

export const hasPoolDetails = () => offered("/api/2.1/instance-pools/details");

/** Who made the pool, and each of its instances; null if it cannot be seen. */
export const poolInstancesQuery = (id: string) =>
  queryOptions({
    queryKey: ["pool", id, "instances"],
    enabled: hasPoolDetails,
    queryFn: async () => {
      const query = { instance_pool_id: id };
      return (await body(api.GET("/api/2.1/instance-pools/details", { params: { query } }))).pools[0] ?? null;
    },
  });

/** Who made the pools, and how many of their instances are warm. */
export const poolDetailsQuery = queryOptions({
  queryKey: ["pool-details"],
  enabled: hasPoolDetails,
  queryFn: async () => {
    const found = (await body(api.GET("/api/2.1/instance-pools/details"))).pools;
    return new Map(found.map((each) => [each.instance_pool_id, each]));
  },
});

/** Reads pools again that have changed. */
export async function refreshPools(queries: QueryClient, ids: string[]) {
  for (const id of ids) void queries.invalidateQueries({ queryKey: ["pool", id] });
  void queries.invalidateQueries({ queryKey: ["pool-details"] });
  await queries.invalidateQueries({ queryKey: ["pools"] });
}
