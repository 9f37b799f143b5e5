import type { components } from "../api/schema";
import { lasting } from "../lib/time";

export type Phase = components["schemas"]["OperationPhase"];

/** What nobody has asked for says so; it takes no time and is not shown. */
export const wanted = (phase: Phase) =>
  !/ (was asked for|to restore)$/.test(phase.message ?? "") &&
  phase.name !== "cleaning_up" &&
  !(phase.name === "restoring_snapshot" && phase.status === "pending");

/** Epoch ms of a time of the API. */
export const at = (text: string | null | undefined) => (text ? Date.parse(text) : undefined);

/** How long a phase took, or has been taking until now; "" before it begins. */
export function took(phase: Phase, now: number): string {
  const from = at(phase.started_at);
  if (from === undefined || phase.status === "pending") return "";
  return lasting((at(phase.finished_at) ?? now) - from);
}
