import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, body } from "../api/client";

/** An object with permissions, as the permissions API names it. */
export interface Securable {
  of: "clusters" | "instance-pools" | "cluster-policies" | "warehouses" | "jobs" | "notebooks";
  id: string;
}

const KINDS = {
  clusters: "cluster",
  "instance-pools": "pool",
  "cluster-policies": "policy",
  warehouses: "warehouse",
  jobs: "job",
  notebooks: "notebook",
} as const;
const keyOf = ({ of, id }: Securable) => [KINDS[of], id] as const;

/** The route of its permissions. Those of all collections have the same types. */
export const route = ({ of }: Securable) =>
  `/api/2.0/permissions/${of}/{object_id}` as "/api/2.0/permissions/clusters/{object_id}";

/** Whoever may see an object sees who else may do what. */
export const permissionsQuery = (on: Securable) =>
  queryOptions({
    queryKey: [...keyOf(on), "permissions"],
    enabled: on.id !== "",
    queryFn: () => body(api.GET(route(on), { params: { path: { object_id: on.id } } })),
  });

/** The levels that can be granted, lowest first. */
export const levelsQuery = (on: Securable) =>
  queryOptions({
    queryKey: [...keyOf(on), "levels"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const path = `${route(on)}/permissionLevels` as "/api/2.0/permissions/clusters/{object_id}/permissionLevels";
      return (await body(api.GET(path, { params: { path: { object_id: on.id } } }))).permission_levels;
    },
  });

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async () => {
    const found = (await body(api.GET("/api/2.0/preview/scim/v2/Me"))) as {
      userName?: string;
      groups?: { display?: string }[];
      entitlements?: { value: string }[];
    };
    return {
      name: found.userName ?? "",
      groups: new Set((found.groups ?? []).map((each) => each.display)),
      entitlements: (found.entitlements ?? []).map((each) => each.value),
    };
  },
});

/** Whether the user is an administrator, as far as the page knows: the server decides. */
export function useAdmin(): boolean {
  return useQuery(meQuery).data?.groups.has("admins") ?? true;
}

/** Whether the user has a level on the object, as far as the page knows. The server decides; the page only leaves out what it would
 * refuse. `levels`: lowest first. As long as the object has no id, all is offered. */
export function useLevel<Level extends string>(on: Securable, levels: readonly Level[]): (level: Level) => boolean {
  const me = useQuery(meQuery).data;
  const entries = useQuery(permissionsQuery(on)).data?.access_control_list;
  if (me === undefined || entries === undefined) return () => true;
  const mine = entries
    .filter((each) =>
      each.group_name ? each.group_name === "users" || me.groups.has(each.group_name) : nameOf(each) === me.name,
    )
    .flatMap((each) => each.all_permissions.map((permission) => levels.indexOf(permission.permission_level as Level)));
  const best = Math.max(-1, ...mine);
  return (level) => best >= levels.indexOf(level);
}

interface Holder {
  user_name?: string | null;
  group_name?: string | null;
  service_principal_name?: string | null;
  display_name?: string | null;
}

export const nameOf = (holder: Holder) =>
  holder.user_name ?? holder.group_name ?? holder.service_principal_name ?? holder.display_name ?? "";
