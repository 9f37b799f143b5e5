import { tabReader } from "../kit/tabsearch";

export type PolicyTab = "rules" | "json" | "clusters" | "permissions";
export const readPolicySearch = tabReader<PolicyTab>(["rules", "json", "clusters", "permissions"]);

/** What a new policy begins with. */
export function readCreateSearch(given: Record<string, unknown>): { clone?: string; family?: string } {
  return Object.fromEntries(
    (["clone", "family"] as const).filter((name) => given[name]).map((name) => [name, String(given[name])]),
  );
}
