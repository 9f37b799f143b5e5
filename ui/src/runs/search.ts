/** What the list of runs shows; it is in its address. */
export interface RunsSearch {
  show?: "active" | "completed";
  q?: string;
  range?: "1d" | "7d";
}

export function readRunsSearch(given: Record<string, unknown>): RunsSearch {
  const found: RunsSearch = {};
  if (given.show === "active" || given.show === "completed") found.show = given.show;
  if (given.range === "1d" || given.range === "7d") found.range = given.range;
  if (given.q !== undefined && given.q !== "") found.q = String(given.q);
  return found;
}
