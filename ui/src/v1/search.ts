export const V1_TABS = ["schedules", "snapshots", "limits"] as const;
export type V1Tab = (typeof V1_TABS)[number];

/** What the page shows; it is in its address. */
export interface V1Search {
  cluster?: string;
  tab?: V1Tab;
}

export function readV1Search(given: Record<string, unknown>): V1Search {
  const found: V1Search = {};
  const tab = V1_TABS.find((each) => each === given.tab);
  if (tab !== undefined) found.tab = tab;
  if (given.cluster) found.cluster = String(given.cluster);
  return found;
}
