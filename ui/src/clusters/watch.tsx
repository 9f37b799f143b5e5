import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { type Cluster, isGone } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { clusterQuery } from "../api/queries";
import { toast } from "../kit/toasts";
import { keptValue } from "../lib/kept";
import { useValue } from "../lib/value";
import { failed, nameOf, reasonOf } from "./facts";

interface Watched {
  name: string;
  state: string; // that was last told, or seen: so what ends while the page is closed is told when it is opened
}

const MOST = 20; // each is read by itself
const FINAL = new Set(["RUNNING", "TERMINATED", "ERROR"]);

const watched = keptValue<Record<string, Watched>>("watched", {});

function put(id: string, entry: Watched | undefined) {
  const { [id]: _, ...rest } = watched.get();
  watched.set(entry === undefined ? rest : { ...rest, [id]: entry });
}

/** Whether this browser tells when the cluster's state becomes final, and a function that changes it. */
export function useWatch(cluster: Cluster): [boolean, () => void] {
  const all = useValue(watched);
  const id = cluster.cluster_id;
  const on = id in all;
  const change = () => {
    if (on) put(id, undefined);
    else if (Object.keys(all).length < MOST) put(id, { name: nameOf(cluster), state: cluster.state ?? "" });
    else toast(`At most ${MOST} clusters can be watched. Stop watching another one first.`, { failed: true });
  };
  return [on, change];
}

function tell(cluster: Cluster) {
  const name = nameOf(cluster);
  if (failed(cluster)) toast(`${name} has failed: ${reasonOf(cluster)}`, { failed: true });
  else toast(`${name} is ${cluster.state}.`, { stays: true });
}

/** Tells of the clusters that this browser watches, on every page. */
export function Watches() {
  return Object.entries(useValue(watched)).map(([id, entry]) => <One key={id} id={id} entry={entry} />);
}

function One({ id, entry }: { id: string; entry: Watched }) {
  const live = useValue(connection) === "live";
  const { data: cluster, error } = useQuery({
    ...clusterQuery(id),
    refetchInterval: live ? false : POLL_MS,
    staleTime: 0, // it may have changed while no page was open
  });
  useEffect(() => {
    if (isGone(error)) {
      put(id, undefined);
      toast(`${entry.name} was deleted.`, { stays: true });
    }
  }, [error, id, entry.name]);
  useEffect(() => {
    const state = cluster?.state;
    if (cluster === undefined || !state || state === entry.state) return;
    put(id, { name: nameOf(cluster), state });
    if (FINAL.has(state)) tell(cluster);
  }, [cluster, id, entry.state]);
  return null;
}
