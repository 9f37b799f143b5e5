import { keptValue } from "../lib/kept";
import type { Value } from "../lib/value";
import { type Draft, EMPTY } from "./drafts";

/** The warehouse or cluster on which statements run. */
export const chosenCompute = keptValue("sql.compute", "");

const known = new Map<string, Value<Draft[]>>();

/** The drafts that this browser keeps for a user; there is always one. */
export function draftsOf(user: string): Value<Draft[]> {
  const found = known.get(user) ?? keptValue<Draft[]>(`sql.drafts.${user}`, [EMPTY]);
  known.set(user, found);
  return found;
}
