import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, body } from "../api/client";

/** Whoever may attach sees who else may do what. */
export const permissionsQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "permissions"],
    queryFn: () => body(api.GET("/api/2.0/permissions/clusters/{object_id}", { params: { path: { object_id: id } } })),
  });

export const levelsQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "levels"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const path = { object_id: id };
      const found = await body(
        api.GET("/api/2.0/permissions/clusters/{object_id}/permissionLevels", { params: { path } }),
      );
      return found.permission_levels;
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

export const LEVELS = ["CAN_ATTACH_TO", "CAN_RESTART", "CAN_MANAGE"] as const;
export type Level = (typeof LEVELS)[number];

/** Whether the user has a level, as far as the page knows. The server decides; the page only leaves out what it would refuse. */
export type May = (level: Level) => boolean;

export function useRights(id: string): May {
  const me = useQuery(meQuery).data;
  const entries = useQuery(permissionsQuery(id)).data?.access_control_list;
  if (me === undefined || entries === undefined) return () => true;
  const mine = entries
    .filter((each) =>
      each.group_name ? each.group_name === "users" || me.groups.has(each.group_name) : nameOf(each) === me.name,
    )
    .flatMap((each) => each.all_permissions.map((permission) => LEVELS.indexOf(permission.permission_level as Level)));
  const best = Math.max(-1, ...mine);
  return (level) => best >= LEVELS.indexOf(level);
}

interface Holder {
  user_name?: string | null;
  group_name?: string | null;
  service_principal_name?: string | null;
  display_name?: string | null;
}

export const nameOf = (holder: Holder) =>
  holder.user_name ?? holder.group_name ?? holder.service_principal_name ?? holder.display_name ?? "";
