import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { words } from "../api/client";
import { markGone } from "../api/gone";
import { confirm } from "../kit/confirm";
import type { IconName } from "../kit/icons";
import { toast } from "../kit/toasts";
import { cancelAll, deleteJob, runNow, updateJob } from "./calls";
import { type Job, type Level, nameOf, paused } from "./words";

export type ActionName = "run" | "pause" | "resume" | "cancel" | "delete";

interface Action {
  label: string;
  icon: IconName;
  done: (name: string) => string; // what is said when the server has taken it
  question?: { action: string; consequence: string }; // before what cannot be undone
  takes: Level;
  call: (job: Job) => Promise<unknown>;
}

export const ACTIONS: Record<ActionName, Action> = {
  run: {
    label: "Run now",
    icon: "play",
    done: (name) => `A run of ${name} was started.`,
    takes: "CAN_MANAGE_RUN",
    call: (job) => runNow(job.job_id),
  },
  pause: {
    label: "Pause",
    icon: "clock",
    done: (name) => `The schedule of ${name} is paused.`,
    takes: "CAN_MANAGE",
    call: (job) => updateJob(job.job_id, paused(job.settings, true)),
  },
  resume: {
    label: "Resume",
    icon: "clock",
    done: (name) => `The schedule of ${name} is active.`,
    takes: "CAN_MANAGE",
    call: (job) => updateJob(job.job_id, paused(job.settings, false)),
  },
  cancel: {
    label: "Cancel all runs",
    icon: "stop",
    done: (name) => `The runs of ${name} are being cancelled.`,
    question: {
      action: "Cancel all runs",
      consequence: "Running tasks are stopped, queued runs do not begin, and job clusters end.",
    },
    takes: "CAN_MANAGE_RUN",
    call: (job) => cancelAll(job.job_id),
  },
  delete: {
    label: "Delete",
    icon: "trash",
    done: (name) => `${name} was deleted.`,
    question: {
      action: "Delete the job",
      consequence: "Its active runs are cancelled. Finished runs stay in the list of job runs.",
    },
    takes: "CAN_MANAGE",
    call: async (job) => {
      await deleteJob(job.job_id);
      markGone(String(job.job_id), "The job was deleted.");
    },
  },
};

/** Does something to a job, and says how it went. `busy`: the id of the one that waits for the server. */
export function useJobActions() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState<number>();
  const act = async (action: ActionName, job: Job): Promise<boolean> => {
    const { label, done, question, call } = ACTIONS[action];
    const name = nameOf(job);
    const title = action === "cancel" ? `Cancel all runs of ${name}?` : `${label} ${name}?`;
    if (question !== undefined && !(await confirm({ title, ...question }))) return false;
    setBusy(job.job_id);
    try {
      await call(job);
      toast(done(name));
      return true;
    } catch (error) {
      toast(words(error), { failed: true });
      return false;
    } finally {
      setBusy(undefined);
      void queries.invalidateQueries({ queryKey: ["job", job.job_id] });
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["runs"] });
    }
  };
  return { busy, act };
}
