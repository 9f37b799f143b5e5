import { queryOptions } from "@tanstack/react-query";
import { api, body } from "./client";
import type { components } from "./schema";

/** What clusters can be made of, and by which names people know it. */
export type NodeType = components["schemas"]["NodeTypeView"];
export type Policy = components["schemas"]["PolicyView"];
export type Pool = components["schemas"]["InstancePoolView"];

export const nodeTypesQuery = queryOptions({
  queryKey: ["node-types"],
  staleTime: 60_000,
  queryFn: async () => (await body(api.GET("/api/2.1/clusters/list-node-types"))).node_types ?? [],
});

export const policiesQuery = queryOptions({
  queryKey: ["policies"],
  queryFn: async () => (await body(api.GET("/api/2.0/policies/clusters/list"))).policies ?? [],
});

export const poolsQuery = queryOptions({
  queryKey: ["pools"],
  queryFn: async () => (await body(api.GET("/api/2.0/instance-pools/list"))).instance_pools ?? [],
});
