import type { Cluster } from "../api/client";

const ACTIVE = new Set(["PENDING", "RUNNING", "RESIZING", "RESTARTING", "TERMINATING"]);
const ACCESS: Record<string, string> = {
  SINGLE_USER: "Dedicated",
  DATA_SECURITY_MODE_DEDICATED: "Dedicated",
  LEGACY_SINGLE_USER: "Dedicated",
  LEGACY_SINGLE_USER_STANDARD: "Dedicated",
  USER_ISOLATION: "Standard",
  DATA_SECURITY_MODE_STANDARD: "Standard",
  NONE: "No isolation shared",
};

export const active = (cluster: Cluster) => ACTIVE.has(cluster.state ?? "");
export const nameOf = (cluster: Cluster) => cluster.cluster_name || cluster.cluster_id;
export const isJob = (cluster: Cluster) => cluster.cluster_source === "JOB";
export const isWarehouse = (cluster: Cluster) => cluster.cluster_source === "SQL";
/** Whether it is changed by what it belongs to, a run or a SQL warehouse, and not by itself. */
export const isOwned = (cluster: Cluster) => isJob(cluster) || isWarehouse(cluster);
/** The run that a job cluster was created for: its name begins with it, job-JOB-run-RUN-TASK. */
export const runOf = (cluster: Cluster) =>
  isJob(cluster) ? /^job-\d+-run-(\d+)-/.exec(cluster.cluster_name ?? "")?.[1] : undefined;
/** The access mode in the words of the form; one that has none by its own name. */
export function accessOf(cluster: Cluster): string {
  const mode = cluster.data_security_mode ?? "NONE";
  return ACCESS[mode] ?? mode;
}
export const tagsOf = (cluster: Pick<Cluster, "custom_tags">) =>
  Object.entries(cluster.custom_tags ?? {}).map(([key, value]) => `${key}: ${value}`);
export const driverType = (cluster: Cluster) => cluster.driver_node_type_id ?? cluster.node_type_id ?? "";

/** Since when the cluster is in its state, as far as the API says. */
export function since(cluster: Cluster): number | undefined {
  if (cluster.state === "TERMINATED") return cluster.terminated_time ?? undefined;
  return Math.max(cluster.start_time ?? 0, cluster.last_restarted_time ?? 0) || undefined;
}

/** Whether it ended because something went wrong. */
export function failed(cluster: Cluster): boolean {
  const type = cluster.termination_reason?.type;
  return cluster.state === "ERROR" || (cluster.state === "TERMINATED" && type !== undefined && type !== "SUCCESS");
}

/** Why it has failed, in one line; "" if it has not. */
export function reasonOf(cluster: Cluster): string {
  if (!failed(cluster)) return "";
  return [cluster.termination_reason?.code, cluster.state_message].filter(Boolean).join(": ");
}

export function target(cluster: Cluster): string {
  const scale = cluster.autoscale;
  return scale ? `${scale.min_workers ?? 0}–${scale.max_workers ?? 0}` : String(cluster.num_workers ?? 0);
}

export const running = (cluster: Cluster) => cluster.executors?.length ?? 0;

/** What the nodes that work now cost in an hour; undefined if the price of one is not known. */
export function hourly(cluster: Cluster, perHour: Map<string, number> | undefined): number | undefined {
  if (perHour === undefined) return undefined;
  const driver = cluster.driver ? perHour.get(driverType(cluster)) : 0;
  const workers = running(cluster) ? perHour.get(cluster.node_type_id ?? "") : 0;
  return driver === undefined || workers === undefined ? undefined : driver + workers * running(cluster);
}

/** `step`: the smallest difference that is to be seen, for amounts beside each other; else a hundredth or what the currency has. */
export function money(amount: number, currency: string, step = 1): string {
  const digits = [2, 3, 4, 5].find((each) => Math.abs(step * 10 ** each - Math.round(step * 10 ** each)) < 1e-6) ?? 6;
  try {
    const more = digits > 2 ? { minimumFractionDigits: digits } : {};
    return new Intl.NumberFormat(undefined, { style: "currency", currency, ...more }).format(amount);
  } catch {
    return `${amount.toFixed(2)} ${currency}`;
  }
}
