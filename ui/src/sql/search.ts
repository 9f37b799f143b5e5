/** What the catalogue shows; it is in the page's address. */
export const TABS = ["columns", "sample", "details"] as const;
export type TableTab = (typeof TABS)[number];

export interface CatalogSearch {
  catalog?: string;
  schema?: string;
  table?: string;
  tab?: TableTab;
  q?: string; // what the names of the list contain
}

const text = (given: unknown) => (given === undefined || given === "" ? undefined : String(given));

/** Reads the page's address. A schema needs its catalog, and a table its schema. */
export function readCatalogSearch(given: Record<string, unknown>): CatalogSearch {
  const catalog = text(given.catalog);
  const schema = catalog && text(given.schema);
  const table = schema && text(given.table);
  const found: CatalogSearch = {
    catalog,
    schema,
    table,
    tab: table ? TABS.find((each) => each === given.tab) : undefined,
    q: table ? undefined : text(given.q),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
