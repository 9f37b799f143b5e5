/** What the page of a cluster shows; it is in the page's address. */
export const TABS = [
  "configuration",
  "notebooks",
  "libraries",
  "events",
  "spark-ui",
  "logs",
  "metrics",
  "apps",
  "jdbc",
  "permissions",
] as const;
export type Tab = (typeof TABS)[number];

export const FORMS = ["json", "sdk", "cli", "terraform"] as const;
export type Form = (typeof FORMS)[number];

export interface ClusterSearch {
  tab?: Tab;
  as?: Form; // of the configuration
  type?: string[]; // of events
  from?: number; // epoch ms, of events and metrics
  to?: number;
  file?: string; // of the logs
  find?: string;
  range?: string; // of the metrics
  node?: string;
}

const one = <T extends string>(known: readonly T[], given: unknown): T | undefined =>
  known.find((each) => each === given);
const time = (given: unknown) => (Number.isFinite(Number(given)) && Number(given) > 0 ? Number(given) : undefined);
const text = (given: unknown) => (given === undefined || given === "" ? undefined : String(given));

export function readClusterSearch(given: Record<string, unknown>): ClusterSearch {
  const types = [given.type].flat().filter((each) => each !== undefined && each !== "");
  const found: ClusterSearch = {
    tab: one(TABS, given.tab),
    as: one(FORMS, given.as),
    type: types.length > 0 ? types.map(String) : undefined,
    from: time(given.from),
    to: time(given.to),
    file: text(given.file),
    find: text(given.find),
    range: text(given.range),
    node: text(given.node),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
