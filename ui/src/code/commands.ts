import { queryOptions } from "@tanstack/react-query";
import { api, body, isGone } from "../api/client";
import type { components } from "../api/schema";
import { offered } from "../api/session";
import { exactNumbers } from "./result/numbers";

/** The command API (1.2). */
export type Language = "python" | "sql" | "scala" | "r";

export interface Result {
  resultType: "text" | "error" | "table" | "image" | "images";
  data?: unknown;
  schema?: { name: string; type: string }[];
  truncated?: boolean;
  summary?: string;
  cause?: string;
  fileName?: string;
  fileNames?: string[];
  isHtml?: boolean; // `data` is HTML
  exited?: boolean; // `data` is what dbutils.notebook.exit was given
}

export type Job = components["schemas"]["RunningJob"];
/** A parameter of a notebook (`dbutils.widgets`). */
export type Widget = components["schemas"]["Widget"];

/** What a command does while it runs: the end of what it has printed, and its Spark jobs. */
export interface Progress {
  printed?: string;
  jobs?: Job[];
}

export type Status = "Queued" | "Running" | "Cancelling" | "Finished" | "Cancelled" | "Error";
export interface Outcome {
  status: Status;
  result: Result | null;
  widgets?: Widget[]; // of the session, after the command; missing: its process has made none
}

/** A command as it is sent. `widgets`: the values that a person has chosen; a workspace of Databricks takes none. */
export interface Sent {
  language: Language;
  command: string;
  widgets?: Record<string, string>;
}

const EVERYWHERE: Language[] = ["python", "sql"]; // what every workspace runs, also one that does not tell
const FIRST_MS = 150;
const SLOWEST_MS = 1500;
const pause = (ms: number) => new Promise((go) => setTimeout(go, ms));

/** A context that runs: commands that wait for one another, and share their variables. */
export async function begin(clusterId: string, language: Language): Promise<string> {
  const { id } = await body(api.POST("/api/1.2/contexts/create", { body: { clusterId, language } }));
  for (let wait = FIRST_MS; ; wait = Math.min(wait * 1.5, SLOWEST_MS)) {
    const query = { clusterId, contextId: id };
    const { status, message } = await body(api.GET("/api/1.2/contexts/status", { params: { query } }));
    if (status === "Running") return id;
    if (status === "Error")
      throw new Error(message || "The cluster could not start a session. The driver's log may say why.");
    await pause(wait);
  }
}

export async function end(clusterId: string, contextId: string) {
  await body(api.POST("/api/1.2/contexts/destroy", { body: { clusterId, contextId } }));
}

export async function execute(clusterId: string, contextId: string, { language, command, widgets = {} }: Sent) {
  const more = Object.keys(widgets).length > 0 ? { widgets } : {};
  const asked = api.POST("/api/1.2/commands/execute", { body: { clusterId, contextId, language, command, ...more } });
  return (await body(asked)).id;
}

export async function cancel(clusterId: string, contextId: string, commandId: string) {
  await body(api.POST("/api/1.2/commands/cancel", { body: { clusterId, contextId, commandId } }));
}

/** The state of a command now. Whole numbers that a browser would round are texts in it. */
async function status(clusterId: string, contextId: string, commandId: string) {
  const query = { clusterId, contextId, commandId };
  const asked = api.GET("/api/1.2/commands/status", { params: { query }, parseAs: "text" });
  return exactNumbers((await body(asked)) as unknown as string) as components["schemas"]["CommandStatusResponse"];
}

/** The result of a command that is over; undefined if its session no longer has it. */
export async function resultOf(clusterId: string, contextId: string, commandId: string) {
  try {
    return (await status(clusterId, contextId, commandId)).results as Result | null | undefined;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** Waits for the end of a command, as long as it is `wanted`. A server that is away for a moment does not end the wait: the command
 * goes on without it. */
export async function outcome(
  clusterId: string,
  contextId: string,
  commandId: string,
  seen: (status: Status, progress: Progress | undefined, widgets: Widget[] | undefined) => void,
  wanted: () => boolean,
): Promise<Outcome | undefined> {
  for (let wait = FIRST_MS; wanted(); wait = Math.min(wait * 1.5, SLOWEST_MS)) {
    try {
      const found = await status(clusterId, contextId, commandId);
      const now = found.status as Status;
      if (now !== "Queued" && now !== "Running" && now !== "Cancelling")
        return { status: now, result: (found.results ?? null) as Result | null, widgets: found.widgets ?? undefined };
      seen(now, found.progress ?? undefined, found.widgets ?? undefined);
    } catch (error) {
      if (!passing(error)) throw error;
    }
    await pause(wait);
  }
  return undefined;
}

/** The languages that commands on a cluster may have: the server knows. */
export const languagesQuery = (clusterId: string) =>
  queryOptions({
    queryKey: ["cluster", clusterId, "languages"],
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
    queryFn: async (): Promise<Language[]> => {
      if (!offered("/api/1.2/contexts/languages")) return EVERYWHERE;
      const query = { clusterId };
      return (await body(api.GET("/api/1.2/contexts/languages", { params: { query } }))).languages as Language[];
    },
  });

/** Whether the same question may be answered later. */
export function passing(error: unknown): boolean {
  const status = (error as { status?: number }).status;
  return status === undefined || status === 401 || status === 429 || status >= 500;
}
