import type { components } from "../api/schema";

export type ClusterEvent = components["schemas"]["ClusterEvent"];
type Details = NonNullable<ClusterEvent["details"]>;

const CAUSES: Record<string, string> = {
  AUTOSCALE: "by autoscaling",
  AUTOSCALE_V2: "by autoscaling",
  DBR_AUTOSCALE: "by autoscaling",
  AUTORECOVERY: "to replace lost nodes",
  REPLACE_BAD_NODES: "to replace bad nodes",
  USER_REQUEST: "on request",
};

/** What is in an event, in one line. */
export function describe(event: ClusterEvent): string {
  const details = event.details ?? {};
  const said = [
    details.reason && ended(details.reason),
    details.driver_state_message,
    details.did_not_expand_reason,
    size(details),
    event.type === "EDITED" && changed(details),
    details.init_scripts && scripts(details.init_scripts),
    details.instance_id && `Instance ${details.instance_id}`,
    details.job_run_name && `Run ${details.job_run_name}`,
    details.user && `by ${details.user}`,
  ];
  return said.filter(Boolean).join(" · ");
}

function ended(reason: NonNullable<Details["reason"]>): string {
  const parameters = Object.entries(reason.parameters ?? {}).map(([name, value]) => `${name}: ${value}`);
  return [reason.code, ...parameters].filter(Boolean).join(", ");
}

function size(details: Details): string {
  const cause = (details.cause && CAUSES[details.cause]) ?? "";
  const [from, to] = [details.current_num_workers, details.target_num_workers];
  if (to != null) {
    const words = from == null || from === to ? `${to} workers` : `${from} → ${to} workers`;
    return `${words} ${cause}`.trim();
  }
  if (from != null) return `${from} workers ${cause}`.trim();
  const wanted = details.cluster_size;
  if (wanted?.autoscale)
    return `${wanted.autoscale.min_workers}–${wanted.autoscale.max_workers} workers ${cause}`.trim();
  return wanted?.num_workers == null ? "" : `${wanted.num_workers} workers ${cause}`.trim();
}

/** The fields that an edit has changed. */
function changed(details: Details): string {
  const [before, after] = [details.previous_attributes ?? {}, details.attributes ?? {}] as Record<string, unknown>[];
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const differ = names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  return differ.length > 0 ? `Changed ${differ.join(", ")}` : "";
}

function scripts(given: NonNullable<Details["init_scripts"]>): string {
  const all = [...(given.global ?? []), ...(given.cluster ?? [])] as { status?: string | null }[];
  const failed = all.filter((each) => each.status && !/^(SUCCEEDED|UNKNOWN|SKIPPED)/.test(each.status));
  return `${all.length} init ${all.length === 1 ? "script" : "scripts"}${failed.length > 0 ? `, ${failed.length} failed` : ""}`;
}

export type Look = "good" | "off" | "bad";

const LOOKS: Record<string, Look> = {
  RUNNING: "good",
  UPSIZE_COMPLETED: "good",
  DRIVER_HEALTHY: "good",
};
const BAD = /FAILED|LOST|DOWN$|UNAVAILABLE|NOT_RESPONDING|EXCEPTION|BLACKLISTED|DID_NOT/;

export function lookOf(event: ClusterEvent): Look {
  if (BAD.test(event.type)) return "bad";
  const fault = event.details?.reason?.type;
  if (fault && fault !== "SUCCESS") return "bad";
  return LOOKS[event.type] ?? "off";
}
