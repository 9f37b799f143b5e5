import type { FetchQueryOptions, QueryClient } from "@tanstack/react-query";
import { meQuery } from "../access/rights";
import { keepWhenLeft, recall } from "../api/lastvisit";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery, hasPrices, pinnedQuery, pricesQuery, runtimesQuery } from "../api/queries";

/** How long the first drawing waits for the clusters, in milliseconds. */
const PATIENCE = 100;
/** How long after the clusters what was kept is asked for again: the rows are drawn. */
const SOON = 500;

/**
 * Asks for all that the list shows at once: each answer that comes after its rows are drawn would draw them again. What changes rarely
 * is as at the user's last visit until it comes: each request before the rows costs time on a slow machine.
 *
 * Is done when the clusters are here, so that no list without rows is drawn before the list, or soon without them.
 */
export async function prepare(queries: QueryClient, user: string): Promise<void> {
  const clusters = queries.prefetchQuery(clustersQuery);
  const prices = hasPrices() ? [pricesQuery] : [];
  const rare = [pinnedQuery, runtimesQuery, policiesQuery, poolsQuery, meQuery, ...prices] as FetchQueryOptions[];
  const keys = rare.map((each) => each.queryKey);
  const again = () => {
    for (const queryKey of keys) void queries.invalidateQueries({ queryKey, exact: true });
  };
  if (recall(queries, user, keys)) void clusters.then(() => setTimeout(again, SOON));
  else for (const each of rare) void queries.prefetchQuery(each);
  keepWhenLeft(queries, user, keys);
  await Promise.race([clusters, new Promise<void>((done) => setTimeout(done, PATIENCE))]);
}
