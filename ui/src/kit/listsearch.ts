const TABS = ["job", "pools", "policies", "sql"] as const;
export type ListTab = (typeof TABS)[number];

/** What the lists show; it is in the page's address. */
export interface ListSearch {
  tab?: ListTab;
  q?: string;
  state?: string[];
  access?: string[];
  runtime?: string[];
  creator?: string[];
  policy?: string[];
  pool?: string[];
  tag?: string[];
  mine?: true;
  active?: true;
  sort?: string;
}

const LISTS = ["state", "access", "runtime", "creator", "policy", "pool", "tag"] as const;
export type Facet = (typeof LISTS)[number];

export function readSearch(given: Record<string, unknown>): ListSearch {
  const found: ListSearch = {};
  const tab = TABS.find((each) => each === given.tab);
  if (tab !== undefined) found.tab = tab;
  if (given.q !== undefined && given.q !== "") found.q = String(given.q);
  for (const name of LISTS) {
    const values = [given[name]].flat().filter((each) => each !== undefined && each !== "");
    if (values.length > 0) found[name] = values.map(String);
  }
  if (given.mine) found.mine = true;
  if (given.active) found.active = true;
  if (typeof given.sort === "string") found.sort = given.sort;
  return found;
}
