export const POLICY_TABS = ["rules", "json", "clusters", "permissions"] as const;
export type PolicyTab = (typeof POLICY_TABS)[number];

export function readPolicySearch(given: Record<string, unknown>): { tab?: PolicyTab } {
  const tab = POLICY_TABS.find((each) => each === given.tab);
  return tab === undefined ? {} : { tab };
}

/** What a new policy begins with. */
export function readCreateSearch(given: Record<string, unknown>): { clone?: string; family?: string } {
  return Object.fromEntries(
    (["clone", "family"] as const).filter((name) => given[name]).map((name) => [name, String(given[name])]),
  );
}
