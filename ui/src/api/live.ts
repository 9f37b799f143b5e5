import type { QueryClient } from "@tanstack/react-query";
import { Value } from "../lib/value";
import { markGone } from "./gone";
import { refreshPolicies, refreshPools } from "./offers";
import { refresh, refreshAll } from "./queries";
import { offered, session } from "./session";

/** `live`: the server tells what changes. `polling`: the page asks every five seconds. */
export const connection = new Value<"live" | "polling">("polling");
export const POLL_MS = 5000;
const RETRY_MS = 5000;

export const tellsChanges = () => offered("/api/2.1/changes");

const KINDS: Record<string, string> = { cluster: "cluster", "cluster-policy": "policy", "instance-pool": "pool" };

interface Changed {
  objects: { kind: string; id: string; version: number; deleted?: true }[];
}

/** Follows the server's stream of changes for as long as the page lives, and reads again what has changed. */
export function follow(queries: QueryClient) {
  if (!tellsChanges()) return; // the page asks, as long as it lives
  const stream = new EventSource("/api/2.1/changes?kinds=cluster,cluster-policy,instance-pool");
  stream.onopen = () => connection.set("live");
  stream.addEventListener("reset", () => void refreshAll(queries));
  stream.addEventListener("changed", (event) => {
    const { objects } = JSON.parse((event as MessageEvent<string>).data) as Changed;
    for (const { kind, id, deleted } of objects) if (deleted) markGone(id, `The ${KINDS[kind]} was deleted.`);
    const ids = (kind: string) => objects.filter((each) => each.kind === kind).map((each) => each.id);
    if (ids("cluster").length > 0) void refresh(queries, ids("cluster"));
    if (ids("cluster-policy").length > 0) void refreshPolicies(queries);
    if (ids("instance-pool").length > 0) void refreshPools(queries, ids("instance-pool"));
  });
  stream.onerror = () => {
    connection.set("polling");
    if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    setTimeout(() => follow(queries), RETRY_MS);
  };
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
