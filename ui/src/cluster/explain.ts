import type { Cluster } from "../api/client";

/** Why a cluster failed. */
export interface Explanation {
  code: string;
  what: string; // one sentence, or a few
  todo: string; // "" if nobody knows
  log: string; // the last lines of the failed node's log
  facts: [name: string, value: string][]; // of the reason, that the sentences do not have
  instance: string; // the failed node; "" if there was none
  headline: string; // what to look for in its log; "" if the log does not have it
}

/** What to do, where the server's message does not say it. */
const REMEDIES: Record<string, string> = {
  BOOTSTRAP_TIMEOUT: "Check the log, then start the cluster again.",
  CLOUD_PROVIDER_LAUNCH_FAILURE: "Start the cluster again. If it fails again, see the server's log.",
  CLOUD_PROVIDER_RESOURCE_STOCKOUT:
    "Stop another cluster, choose a smaller node type or fewer workers, or try again later.",
  CLOUD_PROVIDER_SHUTDOWN: "Start the cluster again.",
  DRIVER_OUT_OF_MEMORY: "Choose a larger driver type, or collect less data to the driver.",
  DRIVER_UNEXPECTED_FAILURE: "See the end of the driver's stderr.",
  DRIVER_UNREACHABLE: "Start the cluster again.",
  DRIVER_UNRESPONSIVE: "Check the driver's memory in the metrics, and choose a larger driver type.",
  GLOBAL_INIT_SCRIPT_FAILURE: "See the script's output in the logs. An administrator can fix or disable it.",
  INIT_SCRIPT_FAILURE: "See the script's output in the logs. Fix the script, then start the cluster again.",
  INSTANCE_POOL_MAX_CAPACITY_REACHED: "Try again later, or raise the pool's max capacity.",
  INSTANCE_POOL_NOT_FOUND: "Edit the cluster and choose another pool or a node type.",
  INVALID_ARGUMENT: "Edit the cluster.",
  SECRET_PERMISSION_DENIED: "Ask for READ on the secret's scope.",
  SECRET_RESOLUTION_ERROR: "Create the secret, or edit the cluster.",
  SPARK_STARTUP_FAILURE: "Check the Spark configuration and the driver's log.",
  SPOT_INSTANCE_TERMINATION: "Run the driver on demand (first_on_demand: 1).",
  STORAGE_DOWNLOAD_FAILURE: "Check that the file exists and is readable.",
  UNSUPPORTED_INSTANCE_TYPE: "Edit the cluster and choose another node type.",
};

/** How sentences begin that say what to do. */
const ADVICE =
  /^(Add|Allow|Ask|Check|Choose|Collect|Create|Delete|Edit|Fix|Free|Give|Grant|Install|Leave|Lower|Name|Put|Raise|Remove|Restart|See|Set|Start|Stop|Terminate|Try|Upload|Use|Wait|Write)\b/;
const TAIL = "\nLast lines of its log:\n";
const FACTS: Record<string, string> = { asked: "Requested", left: "Available" };
const SHOWN_ALREADY = new Set(["log_tail", "databricks_error_message", "instance_id"]);
const FINDABLE = 12; // characters: a shorter text is found anywhere

export function explain(cluster: Cluster): Explanation {
  const reason = cluster.termination_reason;
  const code = reason?.code ?? "UNKNOWN";
  const parameters: Record<string, string> = reason?.parameters ?? {};
  const message = cluster.state_message || parameters.databricks_error_message || "";
  const at = message.indexOf(TAIL);
  const told = (at < 0 ? message : message.slice(0, at)).trim();
  const log = (parameters.log_tail ?? (at < 0 ? "" : message.slice(at + TAIL.length))).trim();
  const said = sentences(told);
  const first = said.findIndex((each, place) => place > 0 && ADVICE.test(each));
  const what = (first < 0 ? said : said.slice(0, first)).join(" ");
  return {
    code,
    what: what || "No reason was given.",
    todo: first < 0 ? (REMEDIES[code] ?? "") : said.slice(first).join(" "),
    log,
    facts: Object.entries(parameters)
      .filter(([name, value]) => !SHOWN_ALREADY.has(name) && !message.includes(value))
      .map(([name, value]) => [FACTS[name] ?? name, value]),
    instance: parameters.instance_id ?? "",
    headline: headlineOf(what, log),
  };
}

/** A dot ends a sentence only before a blank and a capital letter: file names and settings have dots too. */
const sentences = (text: string) => text.split(/(?<=[.!?])\s+(?=[A-Z])/).filter((each) => each !== "");

/** The longest end of the sentence, begun after a colon, that a line of the log has: what came from there. */
function headlineOf(what: string, log: string): string {
  const lines = log.split("\n");
  const parts = what.replace(/\.$/, "").split(": ");
  for (let at = 1; at < parts.length; at++) {
    const end = parts.slice(at).join(": ").split("\n")[0]?.trim() ?? "";
    if (end.length >= FINDABLE && lines.some((line) => line.includes(end))) return end;
  }
  return "";
}
