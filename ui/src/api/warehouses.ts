import { queryOptions } from "@tanstack/react-query";
import { api, body } from "./client";
import type { components } from "./schema";

export type Warehouse = components["schemas"]["WarehouseView"];

const POLL_MS = 3000; // warehouses, and who uses them, are not in the stream of changes
const PAGE = 1000;

/** All warehouses that the user may see, oldest first. */
async function all(): Promise<Warehouse[]> {
  const found: Warehouse[] = [];
  for (let page_token = ""; ; ) {
    const query = { page_size: PAGE, ...(page_token && { page_token }) };
    const page = await body(api.GET("/api/2.0/sql/warehouses", { params: { query } }));
    found.push(...(page.warehouses ?? []));
    if (!page.next_page_token) return found;
    page_token = page.next_page_token;
  }
}

export const warehousesQuery = queryOptions({ queryKey: ["warehouses"], refetchInterval: POLL_MS, queryFn: all });

export const warehouseQuery = (id: string) =>
  queryOptions({
    queryKey: ["warehouse", id],
    queryFn: () => body(api.GET("/api/2.0/sql/warehouses/{id}", { params: { path: { id } } })),
  });

/** What all warehouses of the workspace have. Of a workspace elsewhere, `node_type_id` is absent. */
export const warehouseConfigQuery = queryOptions({
  queryKey: ["warehouse-config"],
  staleTime: 60_000,
  queryFn: () => body(api.GET("/api/2.0/sql/config/warehouses")),
});
