import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { catalogs, schemas, table, tables } from "../api/catalog";
import type { components } from "../api/schema";

export type Table = components["schemas"]["TableInfo"];
export type ColumnOf = NonNullable<Table["columns"]>[number];

export const catalogsQuery = queryOptions({ queryKey: ["catalog"], queryFn: catalogs });

export const schemasQuery = (catalog: string) =>
  infiniteQueryOptions({
    queryKey: ["catalog", catalog],
    initialPageParam: "",
    queryFn: ({ pageParam }) => schemas(catalog, pageParam),
    getNextPageParam: (page) => page.next_page_token || undefined,
  });

export const tablesQuery = (catalog: string, schema: string) =>
  infiniteQueryOptions({
    queryKey: ["catalog", catalog, schema],
    initialPageParam: "",
    queryFn: ({ pageParam }) => tables(catalog, schema, pageParam),
    getNextPageParam: (page) => page.next_page_token || undefined,
  });

export const tableQuery = (catalog: string, schema: string, name: string) =>
  queryOptions({
    queryKey: ["catalog", catalog, schema, name],
    queryFn: () => table(catalog, schema, name),
  });
