import { api, body } from "./client";

/** Catalogs, schemas, tables and columns, as the user may see them. A list comes in pages; "" asks for the first. */
export const catalogs = async () => (await body(api.GET("/api/2.1/unity-catalog/catalogs"))).catalogs ?? [];

export function schemas(catalog: string, pageToken = "") {
  const query = { catalog_name: catalog, page_token: pageToken };
  return body(api.GET("/api/2.1/unity-catalog/schemas", { params: { query } }));
}

export function tables(catalog: string, schema: string, pageToken = "") {
  const names = { catalog_name: catalog, schema_name: schema, page_token: pageToken };
  const query = { ...names, omit_columns: true, omit_properties: true };
  return body(api.GET("/api/2.1/unity-catalog/tables", { params: { query } }));
}

/** A table with its columns, by its name in three parts. */
export function table(...name: string[]) {
  const path = { full_name: name.join(".") };
  return body(api.GET("/api/2.1/unity-catalog/tables/{full_name}", { params: { path } }));
}
