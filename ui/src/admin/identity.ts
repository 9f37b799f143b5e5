/** Users, service principals and groups, as SCIM has them. Its resources are open: these are the fields that the page uses. */
export interface Reference {
  value: string;
  display?: string;
  type?: "direct" | "indirect";
  $ref?: string;
}

export interface Identity {
  id: string;
  userName?: string; // of a person
  applicationId?: string; // of a service principal
  displayName?: string;
  active?: boolean;
  groups?: Reference[];
  entitlements?: { value: string }[];
}

export const nameOf = (each: Identity) => each.userName ?? each.displayName ?? each.applicationId ?? each.id;
/** What the identity is called where it owns something or has tokens. */
export const principalOf = (each: Identity) => each.userName ?? each.applicationId ?? "";
export const directGroups = (each: Identity) =>
  (each.groups ?? []).filter((group) => group.type !== "indirect" && group.display !== "users");

export interface Change {
  op: "add" | "remove" | "replace";
  path?: string;
  value?: unknown;
}

export const quoted = (value: string) => JSON.stringify(value);

/** Sets which entitlements somebody or a group has by itself. */
export const entitle = (was: string[], wanted: string[]): Change[] => {
  const added = wanted.filter((each) => !was.includes(each));
  const removed = was.filter((each) => !wanted.includes(each));
  return [
    ...(added.length > 0
      ? [{ op: "add" as const, path: "entitlements", value: added.map((value) => ({ value })) }]
      : []),
    ...removed.map((each) => ({ op: "remove" as const, path: `entitlements[value eq ${quoted(each)}]` })),
  ];
};
