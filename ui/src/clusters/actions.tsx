import { useMutation, useMutationState, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, body, type Cluster } from "../api/client";
import { markGone } from "../api/gone";
import { refresh } from "../api/queries";
import { confirm } from "../kit/confirm";
import type { IconName } from "../kit/icons";
import { toast } from "../kit/toasts";
import { count, figure } from "../lib/sizes";
import { isJob, isOwned, isWarehouse, nameOf } from "./facts";
import { actOnAll, MANY, type Outcome } from "./many";
import type { Level } from "./rights";

export type ActionName = "start" | "stop" | "restart" | "pin" | "unpin" | "delete";
export type Act = (name: ActionName, cluster: Cluster) => void;

interface Action {
  label: string;
  icon: IconName;
  done: string; // what is said when the server has taken it
  consequence?: string; // of what cannot be undone
  takes: Level; // on the cluster
  call: (id: string) => Promise<unknown>;
  fits: (cluster: Cluster, pinned: boolean) => boolean;
}

const ends = (cluster: Cluster) => ["PENDING", "RUNNING", "RESIZING", "RESTARTING"].includes(cluster.state ?? "");
const given = (id: string) => ({ body: { cluster_id: id } });

export const ACTIONS: Record<ActionName, Action> = {
  start: {
    label: "Start",
    icon: "play",
    done: "is starting",
    takes: "CAN_RESTART",
    call: (id) => body(api.POST("/api/2.1/clusters/start", given(id))),
    fits: (cluster) => cluster.state === "TERMINATED" && !isJob(cluster), // that is its run's alone
  },
  stop: {
    label: "Stop",
    icon: "stop",
    done: "is stopping",
    consequence: "Everything that runs on it is stopped. Its configuration is kept.",
    takes: "CAN_RESTART",
    call: (id) => body(api.POST("/api/2.1/clusters/delete", given(id))),
    fits: (cluster) => ends(cluster) && !isWarehouse(cluster),
  },
  restart: {
    label: "Restart",
    icon: "restart",
    done: "is restarting",
    consequence: "Everything that runs on it is stopped, and notebooks lose their state.",
    takes: "CAN_RESTART",
    call: (id) => body(api.POST("/api/2.1/clusters/restart", { body: { cluster_id: id, restart_user: null } })),
    fits: (cluster) => cluster.state === "RUNNING" && !isOwned(cluster),
  },
  pin: {
    label: "Pin",
    icon: "pin",
    done: "is pinned",
    takes: "CAN_MANAGE",
    call: (id) => body(api.POST("/api/2.1/clusters/pin", given(id))),
    fits: (_, pinned) => !pinned,
  },
  unpin: {
    label: "Unpin",
    icon: "pin",
    done: "is no longer pinned",
    takes: "CAN_MANAGE",
    call: (id) => body(api.POST("/api/2.1/clusters/unpin", given(id))),
    fits: (_, pinned) => pinned,
  },
  delete: {
    label: "Delete",
    icon: "trash",
    done: "was deleted",
    consequence: "The cluster is terminated, and its configuration and logs are permanently deleted.",
    takes: "CAN_MANAGE",
    call: async (id) => {
      await body(api.POST("/api/2.1/clusters/permanent-delete", given(id)));
      markGone(id, "The cluster was deleted.");
    },
    fits: (cluster, pinned) => !pinned && !isWarehouse(cluster), // the server refuses to delete a pinned one
  },
};

/** What can be done with a cluster now. */
export const fitting = (cluster: Cluster, pinned: boolean) =>
  (Object.keys(ACTIONS) as ActionName[]).filter((name) => ACTIONS[name].fits(cluster, pinned));

/** Does something to clusters, and says how it went. `busy`: those that wait for the server, wherever that began. */
export function useActions() {
  const queries = useQueryClient();
  const { mutateAsync } = useMutation({
    mutationKey: ACTING,
    gcTime: 0,
    mutationFn: async ({ name, clusters }: Acting) => {
      const outcome = await actOnAll(clusters, { label: ACTIONS[name].label, call: ACTIONS[name].call });
      report(name, clusters, outcome);
      await refresh(queries, idsOf(clusters));
    },
  });
  const acting = useMutationState({
    filters: { mutationKey: ACTING, status: "pending" },
    select: ({ state }) => (state.variables as Acting).clusters,
  });
  const busy: ReadonlySet<string> = useMemo(() => new Set(acting.flatMap(idsOf)), [acting]);
  const act = async (name: ActionName, clusters: Cluster[]) => {
    if (clusters.length > 0 && (await agreed(name, clusters))) await mutateAsync({ name, clusters });
  };
  return { busy, act };
}

const ACTING = ["acting on clusters"];

interface Acting {
  name: ActionName;
  clusters: Cluster[];
}

const idsOf = (clusters: Cluster[]) => clusters.map((each) => each.cluster_id);
const called = ([first, ...more]: Cluster[]) =>
  first && more.length === 0 ? nameOf(first) : count(more.length + 1, "cluster");

/** Whether the reader wants it, where it cannot be undone. For many, their number has to be typed. */
async function agreed(name: ActionName, clusters: Cluster[]): Promise<boolean> {
  const { label, consequence } = ACTIONS[name];
  if (consequence === undefined) return true;
  const what = called(clusters);
  return confirm({
    title: `${label} ${what}?`,
    consequence,
    action: `${label} ${clusters.length === 1 ? "the cluster" : what}`,
    typed: clusters.length < MANY ? undefined : String(clusters.length),
  });
}

const SHOWN = 3; // refusals

function report(name: ActionName, clusters: Cluster[], { done, refused, left }: Outcome) {
  const { label, done: said } = ACTIONS[name];
  const verb = label.toLowerCase();
  for (const { cluster, why } of refused.slice(0, SHOWN))
    toast(`Could not ${verb} ${nameOf(cluster)}: ${why}`, { failed: true });
  if (refused.length > SHOWN)
    toast(`Could not ${verb} ${figure(refused.length - SHOWN)} more clusters.`, { failed: true });
  if (clusters.length === 1 && done === 1) toast(`${called(clusters)} ${said}.`);
  else if (done > 0 || left > 0)
    toast(`${label}: ${figure(done)} of ${count(clusters.length, "cluster")}.`, { stays: left > 0 });
}
