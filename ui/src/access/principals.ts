/** The kinds of those who can be granted something, as the permissions API calls them. */
export const KINDS = { user_name: "User", group_name: "Group", service_principal_name: "Service principal" } as const;
export type Kind = keyof typeof KINDS;

/** Somebody who can be named: `name` is what the API takes, `title` what people call them. */
export interface Principal {
  kind: Kind;
  name: string;
  title: string;
}

export interface Resource {
  id?: string;
  userName?: string;
  displayName?: string;
  applicationId?: string;
  active?: boolean;
}

type Route = "/api/2.0/preview/scim/v2/Users"; // all three have the same types
export const ROUTES: Record<Kind, { route: Route; name: keyof Resource; searched: string[] }> = {
  user_name: { route: "/api/2.0/preview/scim/v2/Users", name: "userName", searched: ["userName", "displayName"] },
  group_name: {
    route: "/api/2.0/preview/scim/v2/Groups" as Route,
    name: "displayName",
    searched: ["displayName"],
  },
  service_principal_name: {
    route: "/api/2.0/preview/scim/v2/ServicePrincipals" as Route,
    name: "applicationId",
    searched: ["displayName", "applicationId"],
  },
};
export const FEWEST = 2; // letters that are searched for

/** The filter of SCIM for the text in any of the attributes. */
export const containing = (attributes: readonly string[], text: string) =>
  attributes.map((each) => `${each} co ${JSON.stringify(text)}`).join(" or ");

/** Those who can be named, without the deactivated: they can do nothing. */
export const principalsOf = (kind: Kind, found: readonly Resource[]): Principal[] =>
  found.flatMap((each) => {
    const name = each[ROUTES[kind].name];
    if (typeof name !== "string" || each.active === false) return [];
    return [{ kind, name, title: each.displayName && each.displayName !== name ? each.displayName : "" }];
  });

/** What can be chosen: by kind, each name once, since the choice is by name. */
export function choices(found: readonly Principal[]): { group: string; items: { value: string }[] }[] {
  const seen = new Set<string>();
  return (Object.keys(KINDS) as Kind[]).flatMap((kind) => {
    const items = found.filter((each) => each.kind === kind && !seen.has(each.name));
    for (const { name } of items) seen.add(name);
    return items.length > 0 ? [{ group: `${KINDS[kind]}s`, items: items.map(({ name }) => ({ value: name })) }] : [];
  });
}
