import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { components } from "../api/schema";

export type Table = components["schemas"]["TableInfo"];
export type ColumnOf = NonNullable<Table["columns"]>[number];

export const catalogsQuery = queryOptions({
  queryKey: ["catalog"],
  queryFn: async () => (await body(api.GET("/api/2.1/unity-catalog/catalogs"))).catalogs ?? [],
});

export const schemasQuery = (catalog: string) =>
  infiniteQueryOptions({
    queryKey: ["catalog", catalog],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = { catalog_name: catalog, page_token: pageParam };
      return body(api.GET("/api/2.1/unity-catalog/schemas", { params: { query } }));
    },
    getNextPageParam: (page) => page.next_page_token || undefined,
  });

export const tablesQuery = (catalog: string, schema: string) =>
  infiniteQueryOptions({
    queryKey: ["catalog", catalog, schema],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const names = { catalog_name: catalog, schema_name: schema, page_token: pageParam };
      const query = { ...names, omit_columns: true, omit_properties: true };
      return body(api.GET("/api/2.1/unity-catalog/tables", { params: { query } }));
    },
    getNextPageParam: (page) => page.next_page_token || undefined,
  });

export const tableQuery = (catalog: string, schema: string, table: string) =>
  queryOptions({
    queryKey: ["catalog", catalog, schema, table],
    queryFn: () => {
      const path = { full_name: [catalog, schema, table].join(".") };
      return body(api.GET("/api/2.1/unity-catalog/tables/{full_name}", { params: { path } }));
    },
  });
