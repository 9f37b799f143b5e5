import { tabReader } from "../kit/tabsearch";

/** What the list of jobs shows; it is in its address. */
export interface JobsSearch {
  q?: string;
  sort?: string;
}

export function readJobsSearch(given: Record<string, unknown>): JobsSearch {
  const found: JobsSearch = {};
  if (given.q !== undefined && given.q !== "") found.q = String(given.q);
  if (typeof given.sort === "string") found.sort = given.sort;
  return found;
}

const TABS = ["runs", "tasks", "settings", "permissions"] as const;
export type JobTab = (typeof TABS)[number];
export const readJobSearch = tabReader<JobTab>(TABS);
