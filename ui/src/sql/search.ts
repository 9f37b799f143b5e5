/** What the catalogue shows; it is in the page's address. */
export const TABS = ["columns", "sample", "history", "details"] as const;
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

export const RANGES = { "1h": 3_600_000, "1d": 86_400_000, "7d": 604_800_000 } as const; // milliseconds
const RANGE_NAMES = Object.keys(RANGES) as (keyof typeof RANGES)[];
export const STATES = ["RUNNING", "FINISHED", "FAILED", "CANCELED"] as const;

/** What the query history shows. */
export interface HistorySearch {
  user?: string; // a name
  compute?: string; // the id of a warehouse or cluster
  state?: (typeof STATES)[number];
  range?: keyof typeof RANGES;
  statement?: string; // the one that is looked at
}

export function readHistorySearch(given: Record<string, unknown>): HistorySearch {
  const found: HistorySearch = {
    user: text(given.user),
    compute: text(given.compute),
    state: STATES.find((each) => each === given.state),
    range: RANGE_NAMES.find((each) => each === given.range),
    statement: text(given.statement),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** Which draft the SQL editor shows. */
export interface EditorSearch {
  draft?: number;
}

export function readEditorSearch(given: Record<string, unknown>): EditorSearch {
  const draft = Number(given.draft);
  return Number.isSafeInteger(draft) && draft > 0 ? { draft } : {};
}
