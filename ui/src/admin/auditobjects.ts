/** What an entry of the audit log is about. */
export type Kind = "cluster" | "pool" | "policy" | "run" | "user" | "other";

export interface Target {
  field: string;
  kind: Kind;
  id: string;
}

const KINDS: Record<string, Kind> = {
  cluster_id: "cluster",
  instance_pool_id: "pool",
  policy_id: "policy",
  run_id: "run",
  user_name: "user",
};
/** Of the permissions API, `object_id` is of the kind that `object_type` names. */
const TYPES: Record<string, Kind> = { clusters: "cluster", "instance-pools": "pool", "cluster-policies": "policy" };

export function targetsOf(objects: Record<string, string> | undefined): Target[] {
  const of = objects ?? {};
  return Object.entries(of)
    .filter(([field]) => field !== "object_type")
    .map(([field, id]) => {
      const kind = field === "object_id" ? TYPES[of.object_type ?? ""] : KINDS[field];
      return { field, id, kind: kind ?? "other" };
    });
}

export type Names = Record<"cluster" | "pool" | "policy", Map<string, string>>;

/** What people know it by; its id if it is gone, or the reader may not see it. */
export const nameOfTarget = ({ kind, id }: Target, names: Names) =>
  kind in names ? names[kind as keyof Names].get(id) || id : id;

/** What is recorded, by the document of the API: calls that change something. */
export function operationsOf(document: { paths?: Record<string, Record<string, { operationId?: string }>> }): string[] {
  const found = new Set<string>();
  for (const calls of Object.values(document.paths ?? {}))
    for (const [method, call] of Object.entries(calls))
      if (method !== "get" && method !== "head" && call.operationId) found.add(call.operationId);
  return [...found].sort();
}
