import type { QueryClient } from "@tanstack/react-query";
import { meQuery } from "../access/rights";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery, hasPrices, pinnedQuery, pricesQuery, runtimesQuery } from "../api/queries";

/** Asks for all that the list shows at once: each answer that comes after its rows are drawn would draw them again. */
export function prepare(queries: QueryClient) {
  void queries.prefetchQuery(clustersQuery);
  void queries.prefetchQuery(pinnedQuery);
  void queries.prefetchQuery(runtimesQuery);
  void queries.prefetchQuery(policiesQuery);
  void queries.prefetchQuery(poolsQuery);
  void queries.prefetchQuery(meQuery);
  if (hasPrices()) void queries.prefetchQuery(pricesQuery);
}
