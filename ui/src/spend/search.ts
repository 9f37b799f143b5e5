export const RANGES = [
  { value: "1d", label: "Today", days: 1 },
  { value: "7d", label: "Week", days: 7 },
  { value: "30d", label: "30 days", days: 30 },
  { value: "90d", label: "90 days", days: 90 },
  { value: "365d", label: "Year", days: 365 },
] as const;
export const KEYS = [
  { value: "creator", label: "User" },
  { value: "cluster", label: "Cluster" },
  { value: "tag", label: "Tag" },
  { value: "node_type", label: "Node type" },
  { value: "role", label: "Driver or worker" },
] as const;
export type Key = (typeof KEYS)[number]["value"];

/** What the page shows; it is in its address. */
export interface SpendSearch {
  range?: (typeof RANGES)[number]["value"]; // a week if there is none
  by?: Key; // the user if there is none
  key?: string; // of the tag, if it is by tag
  user?: string;
  tag?: string; // KEY=VALUE
  cluster?: string;
}

const text = (given: unknown) => (given === undefined || given === "" ? undefined : String(given));

export function readSpendSearch(given: Record<string, unknown>): SpendSearch {
  const found: SpendSearch = {
    range: RANGES.find((each) => each.value === given.range)?.value,
    by: KEYS.find((each) => each.value === given.by)?.value,
    key: text(given.key),
    user: text(given.user),
    tag: text(given.tag),
    cluster: text(given.cluster),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
