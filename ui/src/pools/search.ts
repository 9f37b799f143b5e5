export const POOL_TABS = ["instances", "clusters", "permissions"] as const;
export type PoolTab = (typeof POOL_TABS)[number];

export function readPoolSearch(given: Record<string, unknown>): { tab?: PoolTab } {
  const tab = POOL_TABS.find((each) => each === given.tab);
  return tab === undefined ? {} : { tab };
}
