import type { QueryClient } from "@tanstack/react-query";
import { catalogs, schemas, table, tables } from "../api/catalog";
import { type Source, sourceNamed, sourcesOf } from "./sqlnames";

const FRESH_MS = 60_000;
const DEFAULT_SCHEMA = "default";

export interface Name {
  name: string;
  kind: "catalog" | "schema" | "table" | "column";
  detail?: string;
}

const has = (names: Name[], name: string) => names.some((each) => each.name.toLowerCase() === name.toLowerCase());

/** Names of the workspace's catalogs, as the user may see them. What is not in a list is not asked for: a name that is being typed is
 * mostly none yet. What cannot be read has no names. */
export class CatalogNames {
  constructor(readonly queries: QueryClient) {}

  #cached(key: string[], read: () => Promise<Name[]>): Promise<Name[]> {
    return this.queries
      .fetchQuery({ queryKey: ["names", ...key], staleTime: FRESH_MS, retry: false, queryFn: read })
      .catch(() => []);
  }

  catalogs = () =>
    this.#cached(["catalogs"], async () => {
      const found = await catalogs();
      return found.map(({ name }) => ({ name, kind: "catalog" as const }));
    });

  schemas = (catalog: string) =>
    this.#cached(["schemas", catalog], async () => {
      if (!has(await this.catalogs(), catalog)) return [];
      const found = (await schemas(catalog)).schemas ?? [];
      return found.map(({ name }) => ({ name, kind: "schema" as const }));
    });

  tables = (catalog: string, schema: string) =>
    this.#cached(["tables", catalog, schema], async () => {
      if (!has(await this.schemas(catalog), schema)) return [];
      const found = (await tables(catalog, schema)).tables ?? [];
      return found.map(({ name }) => ({ name, kind: "table" as const }));
    });

  columns = (path: string[]) =>
    this.#cached(["columns", ...path], async () => {
      const [catalog = "", schema = "", name = ""] = path;
      if (!has(await this.tables(catalog, schema), name)) return [];
      const found = (await table(...path)).columns ?? [];
      return found.map(({ name, type_text }) => ({ name, kind: "column" as const, detail: type_text }));
    });

  /** The full name of a table that a statement names with fewer parts. */
  async #full(path: string[]): Promise<string[]> {
    if (path.length >= 3) return path;
    const [first] = await this.catalogs();
    return [first?.name ?? "", ...(path.length === 1 ? [DEFAULT_SCHEMA] : []), ...path];
  }

  #columnsOf = async (source: Source) => this.columns(await this.#full(source.path));

  /** What may follow `path` and a dot in a statement; with an empty path, what may begin a name. */
  async after(path: string[], statement: string): Promise<Name[]> {
    const sources = sourcesOf(statement);
    const [first = "", second = ""] = path;
    if (path.length === 0) {
      const catalogs = await this.catalogs();
      const main = catalogs[0]?.name ?? "";
      const found = await Promise.all([
        ...sources.map(this.#columnsOf),
        this.tables(main, DEFAULT_SCHEMA),
        this.schemas(main),
      ]);
      return [...found.flat(), ...catalogs];
    }
    if (path.length === 1) {
      const source = sourceNamed(sources, first);
      if (source !== undefined) return this.#columnsOf(source);
      const catalogs = await this.catalogs();
      if (has(catalogs, first)) return this.schemas(first);
      return this.tables(catalogs[0]?.name ?? "", first);
    }
    if (path.length === 2) {
      const catalogs = await this.catalogs();
      return has(catalogs, first) ? this.tables(first, second) : this.columns(await this.#full(path));
    }
    return this.columns(path);
  }
}
