import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { type Kind, type Resource, ROUTES } from "./principals";

/** The principals of a kind that a filter of SCIM finds, or the first ones; `count` at most. Everyone in the workspace may ask. */
export async function resources(kind: Kind, filter: string | undefined, count: number): Promise<Resource[]> {
  const query = { count, excludedAttributes: "members,groups", ...(filter === undefined ? {} : { filter }) };
  const found = (await body(api.GET(ROUTES[kind].route, { params: { query } }))) as { Resources?: Resource[] };
  return found.Resources ?? [];
}

/** The id of a user, which other APIs filter by; "" if there is no such user. A text: it may have more digits than a number. */
export const userIdQuery = (name: string) =>
  queryOptions({
    queryKey: ["user-id", name],
    staleTime: 60_000,
    queryFn: async () => (await resources("user_name", `userName eq ${JSON.stringify(name)}`, 1))[0]?.id ?? "",
  });
