import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { components } from "../api/schema";
import { offered } from "../api/session";
import { type Budget, groupBy, type SpendGroup, startOf } from "./grouping";
import type { SpendSearch } from "./search";

export const hasSpend = () => offered("/api/2.1/spend");
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const IN_CHART = 7; // keys; the rest is one bar
const IN_TABLE = 200;
const IN_FILE = 10_000; // the API's limit

export type Spend = Omit<Required<components["schemas"]["Spend"]>, "groups"> & { groups: SpendGroup[] };
export type SetBudget = components["schemas"]["SetBudget"];

async function spend(search: SpendSearch, now: number, group_by: string, top: number): Promise<Spend> {
  const query = {
    start_time: startOf(search.range, now),
    group_by,
    top,
    time_zone: zone,
    ...(search.user ? { creator_user_name: search.user } : {}),
    ...(search.tag ? { tag: search.tag } : {}),
    ...(search.cluster ? { cluster_id: search.cluster } : {}),
  };
  return (await body(api.GET("/api/2.1/spend", { params: { query } }))) as Spend;
}

/** The sums of the table. */
export const groupsQuery = (search: SpendSearch, now: number) =>
  queryOptions({
    queryKey: ["spend", "groups", search, now],
    enabled: groupBy(search) !== undefined,
    queryFn: () => spend(search, now, groupBy(search) ?? "", IN_TABLE),
  });

/** The sums of the chart. */
export const daysQuery = (search: SpendSearch, now: number) =>
  queryOptions({
    queryKey: ["spend", "days", search, now],
    enabled: groupBy(search) !== undefined,
    queryFn: () => spend(search, now, `day,${groupBy(search)}`, IN_CHART),
  });

/** Everything that the API gives in one answer, for a file. */
export const forFile = (search: SpendSearch, now: number) => spend(search, now, groupBy(search) ?? "", IN_FILE);

export const budgetsQuery = queryOptions({
  queryKey: ["spend", "budgets"],
  enabled: () => offered("/api/2.1/budgets"),
  queryFn: async () =>
    (await body(api.GET("/api/2.1/budgets", { params: { query: { time_zone: zone } } }))).budgets as Budget[],
});

export async function saveBudget(budget: SetBudget, id: string | undefined): Promise<void> {
  if (id === undefined) await body(api.POST("/api/2.1/budgets", { body: budget }));
  else
    await body(api.PUT("/api/2.1/budgets/{budget_id}", { params: { path: { budget_id: id } }, body: budget as never }));
}

export async function deleteBudget(id: string): Promise<void> {
  await body(api.DELETE("/api/2.1/budgets/{budget_id}", { params: { path: { budget_id: id } } }));
}
