import type { components } from "../api/schema";
import { warehouseOf } from "../runs/words";
import { inWords } from "./quartz";
import { triggerInWords } from "./trigger";

export type Job = components["schemas"]["JobView"];
export type Settings = components["schemas"]["JobSettings"];
export type JobTask = components["schemas"]["SubmitTask"];

/** Lowest first; the owner may everything. */
export const LEVELS = ["CAN_VIEW", "CAN_MANAGE_RUN", "CAN_MANAGE", "IS_OWNER"] as const;
export type Level = (typeof LEVELS)[number];

export const nameOf = (job: Job) => job.settings.name || `Job ${job.job_id}`;

/** When it runs, in words; undefined: only when someone starts it. */
export function scheduleOf(settings: Settings): { text: string; paused: boolean } | undefined {
  const { schedule, trigger, continuous } = settings;
  if (schedule) {
    const { quartz_cron_expression: cron, timezone_id: zone, pause_status } = schedule;
    return { text: `${inWords(cron) ?? cron} (${zone})`, paused: pause_status === "PAUSED" };
  }
  const text = triggerInWords(settings);
  return text === undefined ? undefined : { text, paused: (trigger ?? continuous)?.pause_status === "PAUSED" };
}

/** What begins its runs with another pause status: what an update sends. */
export function paused({ schedule, trigger, continuous }: Settings, pause: boolean): Settings {
  const pause_status = pause ? "PAUSED" : "UNPAUSED";
  if (continuous) return { continuous: { ...continuous, pause_status } };
  return schedule ? { schedule: { ...schedule, pause_status } } : { trigger: { ...trigger, pause_status } };
}

/** Whether a tool manages the job, which the page then leaves alone. */
export const isLocked = ({ edit_mode, deployment }: Settings) =>
  edit_mode === "UI_LOCKED" || deployment?.kind === "BUNDLE";

export const tagTexts = ({ tags }: Settings) =>
  Object.entries(tags ?? {}).map(([key, value]) => (value ? `${key}: ${value}` : key));

/** Where a task runs. */
export function computeOf(task: JobTask): { text: string; cluster?: string; warehouse?: string } {
  if (task.job_cluster_key) return { text: `Job cluster ${task.job_cluster_key}` };
  if (task.existing_cluster_id) return { text: task.existing_cluster_id, cluster: task.existing_cluster_id };
  if (task.new_cluster) return { text: "A job cluster of its own" };
  const warehouse = warehouseOf(task);
  if (warehouse) return { text: `SQL warehouse ${warehouse}`, warehouse };
  return { text: "" };
}

export function retriesOf({ max_retries: most }: JobTask): string {
  if (!most) return "";
  return most < 0 ? "until it succeeds" : String(most);
}
