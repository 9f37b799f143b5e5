import { api, body } from "../api/client";

/** The command API (1.2). */
export type Language = "python" | "sql" | "scala";

export interface Result {
  resultType: "text" | "error" | "table" | "image" | "images";
  data?: unknown;
  schema?: { name: string; type: string }[];
  truncated?: boolean;
  summary?: string;
  cause?: string;
  fileName?: string;
  fileNames?: string[];
}

export type Status = "Queued" | "Running" | "Cancelling" | "Finished" | "Cancelled" | "Error";
export interface Outcome {
  status: Status;
  result: Result | null;
}

const FIRST_MS = 150;
const SLOWEST_MS = 2000;
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

export async function execute(clusterId: string, contextId: string, language: Language, command: string) {
  const asked = api.POST("/api/1.2/commands/execute", { body: { clusterId, contextId, language, command } });
  return (await body(asked)).id;
}

export async function cancel(clusterId: string, contextId: string, commandId: string) {
  await body(api.POST("/api/1.2/commands/cancel", { body: { clusterId, contextId, commandId } }));
}

/** Waits for the end of a command. A server that is away for a moment does not end the wait: the command goes on without it. */
export async function outcome(
  clusterId: string,
  contextId: string,
  commandId: string,
  seen: (status: Status) => void,
): Promise<Outcome> {
  const query = { clusterId, contextId, commandId };
  for (let wait = FIRST_MS; ; wait = Math.min(wait * 1.5, SLOWEST_MS)) {
    try {
      const found = await body(api.GET("/api/1.2/commands/status", { params: { query } }));
      const status = found.status as Status;
      if (status !== "Queued" && status !== "Running" && status !== "Cancelling")
        return { status, result: (found.results ?? null) as Result | null };
      seen(status);
    } catch (error) {
      if (!passing(error)) throw error;
    }
    await pause(wait);
  }
}

/** Whether the same question may be answered later. */
function passing(error: unknown): boolean {
  const status = (error as { status?: number }).status;
  return status === undefined || status === 401 || status === 429 || status >= 500;
}
