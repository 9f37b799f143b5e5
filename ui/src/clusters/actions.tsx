import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, type Cluster, words } from "../api/client";
import { markGone } from "../api/gone";
import { refresh } from "../api/queries";
import { confirm } from "../kit/confirm";
import type { IconName } from "../kit/icons";
import { toast } from "../kit/toasts";
import { isJob, nameOf } from "./facts";
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
    fits: ends,
  },
  restart: {
    label: "Restart",
    icon: "restart",
    done: "is restarting",
    consequence: "Everything that runs on it is stopped, and notebooks lose their state.",
    takes: "CAN_RESTART",
    call: (id) => body(api.POST("/api/2.1/clusters/restart", { body: { cluster_id: id, restart_user: null } })),
    fits: (cluster) => cluster.state === "RUNNING" && !isJob(cluster),
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
    fits: (_, pinned) => !pinned, // the server refuses to delete a pinned one
  },
};

/** What can be done with a cluster now. */
export const fitting = (cluster: Cluster, pinned: boolean) =>
  (Object.keys(ACTIONS) as ActionName[]).filter((name) => ACTIONS[name].fits(cluster, pinned));

const AT_ONCE = 4;

/** Does something to clusters, and says how it went. `busy`: those that wait for the server. */
export function useActions() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState<ReadonlySet<string>>(new Set());
  const act = async (name: ActionName, clusters: Cluster[]) => {
    const action = ACTIONS[name];
    const [first] = clusters;
    if (first === undefined) return;
    const what = clusters.length === 1 ? nameOf(first) : `${clusters.length} clusters`;
    if (action.consequence !== undefined) {
      const yes = await confirm({
        title: `${action.label} ${what}?`,
        consequence: action.consequence,
        action: `${action.label} ${clusters.length === 1 ? "the cluster" : what}`,
      });
      if (!yes) return;
    }
    const ids = clusters.map((each) => each.cluster_id);
    setBusy((now) => new Set([...now, ...ids]));
    const failures: string[] = [];
    const waiting = [...clusters];
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        try {
          await action.call(next.cluster_id);
        } catch (error) {
          failures.push(`${nameOf(next)}: ${words(error)}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    for (const failure of failures.slice(0, 3)) toast(failure, { failed: true });
    if (failures.length > 3) toast(`${failures.length - 3} more clusters were refused.`, { failed: true });
    const done = clusters.length - failures.length;
    if (clusters.length === 1 && done === 1) toast(`${what} ${action.done}.`);
    else if (done > 0) toast(`${action.label}: ${done} of ${clusters.length} clusters.`);
    await refresh(queries, ids);
    setBusy((now) => new Set([...now].filter((id) => !ids.includes(id))));
  };
  return { busy, act };
}
