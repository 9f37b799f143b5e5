import { mapOf, type Pair, pairsOf } from "../editor/pairing";
import { jsonObject } from "../lib/json";
import { NOBODY, type Telling, tellingOf, wantedTelling } from "./told";
import { NO_TRIGGER, type Trigger, triggerOf, WAYS, wantedTrigger } from "./trigger";
import type { Job, Settings } from "./words";

/** A job as its form has it. */
export interface Draft extends Trigger, Telling {
  name: string;
  description: string;
  runAs: string; // a user, or the application id of a service principal; "": as it is
  tags: Pair[];
  concurrent: number | undefined;
  queue: boolean;
  parameters: Pair[];
  work: string; // tasks and job clusters as JSON
}

// What is taken away where the form has none.
const ABSENT = [...WAYS, "webhook_notifications", "email_notifications", "health"];

export const BEGINNING: Omit<Draft, "work" | "zone"> = {
  name: "",
  description: "",
  runAs: "",
  tags: [],
  ...NO_TRIGGER,
  ...NOBODY,
  concurrent: 1,
  queue: true,
  parameters: [],
};

const workText = (tasks: unknown, job_clusters: unknown) =>
  JSON.stringify({ tasks: tasks ?? [], job_clusters: job_clusters ?? [] }, null, 2);

/** What a new job begins with: one task, on a job cluster. */
export const firstWork = (new_cluster: object) =>
  workText(
    [
      {
        task_key: "main",
        spark_python_task: { python_file: "/Workspace/Shared/main.py", parameters: [] },
        job_cluster_key: "main",
      },
    ],
    [{ job_cluster_key: "main", new_cluster }],
  );

export function draftOf({ settings }: Job, zone: string): Draft {
  return {
    ...BEGINNING,
    name: settings.name ?? "",
    description: settings.description ?? "",
    runAs: settings.run_as?.user_name ?? settings.run_as?.service_principal_name ?? "",
    tags: pairsOf(settings.tags),
    ...triggerOf(settings, zone),
    ...tellingOf(settings),
    concurrent: settings.max_concurrent_runs ?? 1,
    queue: settings.queue?.enabled ?? false,
    parameters: pairsOf(Object.fromEntries((settings.parameters ?? []).map((each) => [each.name, each.default]))),
    work: workText(settings.tasks, settings.job_clusters),
  };
}

/** Why the tasks cannot be sent; undefined: the server decides. */
export function mistakeOf({ work }: Draft): string | undefined {
  const { object = {}, mistake } = jsonObject(work);
  const other = Object.keys(object).find((key) => key !== "tasks" && key !== "job_clusters");
  return mistake ?? (other && `${other} is neither tasks nor job_clusters.`);
}

const APPLICATION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const identity = (name: string) => (APPLICATION_ID.test(name) ? { service_principal_name: name } : { user_name: name });

/** What is saved of a draft. */
export function wanted(draft: Draft): Settings {
  const { tasks = [], job_clusters = [] } = (jsonObject(draft.work).object ?? {}) as Pick<
    Settings,
    "tasks" | "job_clusters"
  >;
  return {
    name: draft.name,
    description: draft.description,
    ...(draft.runAs.trim() && { run_as: identity(draft.runAs.trim()) }),
    tags: mapOf(draft.tags),
    ...wantedTrigger(draft),
    ...wantedTelling(draft),
    ...(draft.concurrent !== undefined && { max_concurrent_runs: draft.concurrent }),
    queue: { enabled: draft.queue },
    parameters: Object.entries(mapOf(draft.parameters)).map(([name, value]) => ({ name, default: value })),
    tasks,
    job_clusters,
  };
}

/** What an update takes away first. Tasks and job clusters are merged by their keys otherwise. */
export const removed = (fields: Settings): string[] => [
  "tasks",
  "job_clusters",
  ...ABSENT.filter((name) => !(name in fields)),
];

const FIELDS: Record<string, keyof Draft> = {
  name: "name",
  description: "description",
  run_as: "runAs",
  tags: "tags",
  schedule: "cron",
  quartz_cron_expression: "cron",
  timezone_id: "zone",
  trigger: "interval",
  max_concurrent_runs: "concurrent",
  queue: "queue",
  webhook_notifications: "told",
  email_notifications: "told",
  health: "warnAfter",
  parameters: "parameters",
};
const NAMED = /^(?:new_settings\.)?(?:schedule\.)?([a-z_]+)/;
const WATCHED: Record<string, keyof Draft> = { file_arrival: "url", table_update: "tables" };
const OF_WATCHED = /^(?:new_settings\.)?trigger\.(file_arrival|table_update)\b/;
const OF_WORK = /^(Task\b|The tasks\b|(new_settings\.)?(tasks?|job_cluster|python_file|libraries|task_key))/;

/** The input that a message of the server is about. */
export const inputOf = (message: string): keyof Draft | undefined =>
  OF_WORK.test(message)
    ? "work"
    : (WATCHED[OF_WATCHED.exec(message)?.[1] ?? ""] ?? FIELDS[NAMED.exec(message)?.[1] ?? ""]);

/** The task that a message of the server is about. */
export const taskOf = (message: string) => /^Task (?:key )?([\w-]+)/.exec(message)?.[1];

/** The names of time zones that browsers know, and UTC. */
export const zones = () => ["UTC", ...Intl.supportedValuesOf("timeZone").filter((each) => each !== "UTC")];
