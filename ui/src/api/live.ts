import type { QueryClient } from "@tanstack/react-query";
import { Value } from "../lib/value";
import { markGone } from "./gone";
import { refreshPolicies, refreshPools } from "./offers";
import { refresh, refreshAll } from "./queries";
import { offered, session } from "./session";
import { SharedStream } from "./shared";

/** `live`: the server tells what changes. `polling`: the page asks every five seconds. */
export const connection = new Value<"live" | "polling">("polling");
export const POLL_MS = 5000;

export const tellsChanges = () => offered("/api/2.1/changes");

const KINDS: Record<string, string> = { cluster: "cluster", "cluster-policy": "policy", "instance-pool": "pool" };

interface Changed {
  objects: { kind: string; id: string; version: number; deleted?: true }[];
}

/** Follows the server's stream of changes for as long as the page lives, and reads again what has changed. */
export function follow(queries: QueryClient) {
  if (!tellsChanges()) return; // the page asks, as long as it lives
  const url = (after: string) =>
    `/api/2.1/changes?${new URLSearchParams({ kinds: Object.keys(KINDS).join(","), last_event_id: after })}`;
  new SharedStream("brickyard.changes", ["reset", "changed"], url, {
    live: (is) => connection.set(is ? "live" : "polling"),
    missed: () => void refreshAll(queries),
    event: (kind, data) => (kind === "reset" ? void refreshAll(queries) : changed(queries, data)),
  });
}

function changed(queries: QueryClient, data: string) {
  const { objects } = JSON.parse(data) as Changed;
  for (const { kind, id, deleted } of objects) if (deleted) markGone(id, `The ${KINDS[kind]} was deleted.`);
  const ids = (kind: string) => objects.filter((each) => each.kind === kind).map((each) => each.id);
  if (ids("cluster").length > 0) void refresh(queries, ids("cluster"));
  if (ids("cluster-policy").length > 0) void refreshPolicies(queries);
  if (ids("instance-pool").length > 0) void refreshPools(queries, ids("instance-pool"));
}

/** After logging in again, what is shown may be old. */
export function refreshAfterLogIn(queries: QueryClient) {
  let was = session.expired.get();
  session.expired.subscribe(() => {
    const is = session.expired.get();
    if (was && !is) void refreshAll(queries);
    was = is;
  });
}
