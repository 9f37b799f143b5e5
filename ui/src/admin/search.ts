/** What the administrators' pages show; it is in the page's address. */
export const ADMIN_TABS = [
  "users",
  "groups",
  "service-principals",
  "tokens",
  "audit",
  "runtimes",
  "machine",
  "notifications",
] as const;
export type AdminTab = (typeof ADMIN_TABS)[number];

export interface AdminSearch {
  tab?: AdminTab;
  q?: string; // a part of a name
  open?: string; // the id of what is open beside the list
  user?: string;
  operation?: string;
  object?: string;
  range?: string;
}

const text = (given: unknown) => (given === undefined || given === "" ? undefined : String(given));

export function readAdminSearch(given: Record<string, unknown>): AdminSearch {
  const found: AdminSearch = {
    tab: ADMIN_TABS.find((each) => each === given.tab),
    q: text(given.q),
    open: text(given.open),
    user: text(given.user),
    operation: text(given.operation),
    object: text(given.object),
    range: text(given.range),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** What each tab gets. */
export interface AdminProps {
  search: AdminSearch;
  /** Changes what the tab shows, in the page's address. */
  change: (changed: Partial<AdminSearch>) => void;
}
