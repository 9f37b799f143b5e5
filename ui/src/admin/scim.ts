import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { type Change, type Identity, quoted, type Reference } from "./identity";

export * from "./identity";

export interface Group {
  id: string;
  displayName: string;
  members?: Reference[];
  groups?: Reference[];
  entitlements?: { value: string }[];
}

export interface Page<T> {
  Resources?: T[];
  totalResults: number;
  startIndex: number;
  itemsPerPage: number;
}

export type Kind = "Users" | "ServicePrincipals";
export const ENTITLEMENTS: { value: string; label: string; what: string }[] = [
  { value: "workspace-access", label: "Use the workspace", what: "Log in, see shared objects, attach to clusters." },
  { value: "allow-cluster-create", label: "Create clusters", what: "With or without a policy." },
  {
    value: "databricks-sql-access",
    label: "Use SQL",
    what: "Stored only. The permissions of a warehouse say who may use it.",
  },
  { value: "allow-instance-pool-create", label: "Create pools", what: "Pools keep instances ready." },
  {
    value: "workspace-consume",
    label: "Use shared results",
    what: "Stored only. Brickyard has no dashboards to share.",
  },
];
const PAGE = 100;
const PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
export const BUILT_IN = new Set(["admins", "users"]);

function nextPage<T>(last: Page<T>): number | undefined {
  const next = last.startIndex + (last.Resources?.length ?? 0);
  return (last.Resources?.length ?? 0) > 0 && next <= last.totalResults ? next : undefined;
}

export const identitiesQuery = (kind: Kind, part: string) =>
  infiniteQueryOptions({
    queryKey: ["scim", kind, part],
    initialPageParam: 1,
    queryFn: async ({ pageParam }) => {
      const name = kind === "Users" ? "userName" : "applicationId";
      const filter = part ? `${name} co ${quoted(part)} or displayName co ${quoted(part)}` : undefined;
      const query = { filter, startIndex: pageParam, count: PAGE };
      const asked =
        kind === "Users"
          ? api.GET("/api/2.0/preview/scim/v2/Users", { params: { query } })
          : api.GET("/api/2.0/preview/scim/v2/ServicePrincipals", { params: { query } });
      return (await body(asked)) as unknown as Page<Identity>;
    },
    getNextPageParam: nextPage,
  });

export const groupsQuery = queryOptions({
  queryKey: ["scim", "Groups"],
  queryFn: async () => {
    const found: Group[] = [];
    for (let startIndex = 1; ; ) {
      const query = { startIndex, count: 1000, excludedAttributes: "members" };
      const page = (await body(
        api.GET("/api/2.0/preview/scim/v2/Groups", { params: { query } }),
      )) as unknown as Page<Group>;
      found.push(...(page.Resources ?? []));
      const next = nextPage(page);
      if (next === undefined) return found.sort((one, other) => one.displayName.localeCompare(other.displayName));
      startIndex = next;
    }
  },
});

export const groupQuery = (id: string) =>
  queryOptions({
    queryKey: ["scim", "Group", id],
    queryFn: async () =>
      (await body(api.GET("/api/2.0/preview/scim/v2/Groups/{id}", { params: { path: { id } } }))) as unknown as Group,
  });

/** The resource as the schema types it: SCIM's are open. */
const open = (resource: object) => resource as Record<string, never>;

export async function createIdentity(kind: Kind, resource: object): Promise<Identity> {
  const asked =
    kind === "Users"
      ? api.POST("/api/2.0/preview/scim/v2/Users", { body: open(resource) })
      : api.POST("/api/2.0/preview/scim/v2/ServicePrincipals", { body: open(resource) });
  return (await body(asked)) as unknown as Identity;
}

export async function changeIdentity(kind: Kind, id: string, changes: Change[]): Promise<void> {
  const given = { params: { path: { id } }, body: open({ schemas: [PATCH], Operations: changes }) };
  if (kind === "Users") await body(api.PATCH("/api/2.0/preview/scim/v2/Users/{id}", given));
  else await body(api.PATCH("/api/2.0/preview/scim/v2/ServicePrincipals/{id}", given));
}

export async function deleteIdentity(kind: Kind, id: string): Promise<void> {
  const params = { path: { id } };
  if (kind === "Users") await body(api.DELETE("/api/2.0/preview/scim/v2/Users/{id}", { params }));
  else await body(api.DELETE("/api/2.0/preview/scim/v2/ServicePrincipals/{id}", { params }));
}

export async function createGroup(displayName: string, entitlements: string[]): Promise<Group> {
  const resource = { displayName, entitlements: entitlements.map((value) => ({ value })) };
  return (await body(api.POST("/api/2.0/preview/scim/v2/Groups", { body: open(resource) }))) as unknown as Group;
}

export async function changeGroup(id: string, changes: Change[]): Promise<void> {
  await body(
    api.PATCH("/api/2.0/preview/scim/v2/Groups/{id}", {
      params: { path: { id } },
      body: open({ schemas: [PATCH], Operations: changes }),
    }),
  );
}

export async function deleteGroup(id: string): Promise<void> {
  await body(api.DELETE("/api/2.0/preview/scim/v2/Groups/{id}", { params: { path: { id } } }));
}

export const addMember = (group: string, id: string) =>
  changeGroup(group, [{ op: "add", path: "members", value: [{ value: id }] }]);
export const removeMember = (group: string, id: string) =>
  changeGroup(group, [{ op: "remove", path: `members[value eq ${quoted(id)}]` }]);
