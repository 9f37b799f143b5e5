import { type InvalidateOptions, type InvalidateQueryFilters, type Query, QueryClient } from "@tanstack/react-query";

const asksFirst = (query: Query) => query.state.fetchStatus === "fetching" && query.state.data === undefined;

/**
 * The client of queries, whose invalidation counts too for what is being asked for the first time. TanStack takes the answer that is on
 * its way: it may be from before the change that invalidates it.
 */
export class Queries extends QueryClient {
  override async invalidateQueries(filters: InvalidateQueryFilters = {}, options: InvalidateOptions = {}) {
    const asked = this.getQueryCache()
      .findAll(filters as Parameters<QueryClient["isFetching"]>[0])
      .filter(asksFirst);
    await super.invalidateQueries(filters, options);
    await Promise.all(
      asked.map(async (query) => {
        await query.promise?.catch(() => undefined);
        await super.invalidateQueries({ queryKey: query.queryKey, exact: true }, options);
      }),
    );
  }
}
