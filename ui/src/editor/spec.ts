import type { Cluster } from "../api/client";
import type { components } from "../api/schema";

type Loose<T> = T extends (infer Item)[] ? Loose<Item>[] : T extends object ? { [Key in keyof T]?: Loose<T[Key]> } : T;

/** A specification as it is sent: what is absent is left to the server. */
export type Spec = Loose<components["schemas"]["ClusterSpec"]>;
export type Path = readonly (string | number)[];

/** Maps, whose keys users choose: each key is a field of its own. */
const MAPS = new Set(["spark_conf", "spark_env_vars", "custom_tags"]);
const SIZE = ["num_workers", "autoscale", "is_single_node"]; // one decision, in three fields

/** Every field of a specification: what a cluster is shown with beyond them is told, and not asked for. */
const FIELDS: Record<keyof components["schemas"]["ClusterSpec"], true> = {
  apply_policy_default_values: true,
  autoscale: true,
  autotermination_minutes: true,
  aws_attributes: true,
  azure_attributes: true,
  cluster_log_conf: true,
  cluster_name: true,
  custom_tags: true,
  data_security_mode: true,
  dependency_mode: true,
  docker_image: true,
  driver_instance_pool_id: true,
  driver_node_type_flexibility: true,
  driver_node_type_id: true,
  enable_elastic_disk: true,
  enable_local_disk_encryption: true,
  gcp_attributes: true,
  init_scripts: true,
  instance_pool_id: true,
  is_single_node: true,
  kind: true,
  node_type_id: true,
  num_workers: true,
  policy_id: true,
  remote_disk_throughput: true,
  runtime_engine: true,
  single_user_name: true,
  spark_conf: true,
  spark_env_vars: true,
  spark_version: true,
  ssh_public_keys: true,
  total_initial_remote_disk_size: true,
  use_ml_runtime: true,
  worker_node_type_flexibility: true,
  workload_type: true,
};

/** What was asked for. A workspace that does not tell it (`spec`) shows the values in effect: those make a cluster like it. */
export function specOf(cluster: Cluster): Spec {
  if (cluster.spec != null) return cluster.spec as Spec;
  const shown = Object.entries(cluster).filter(([name, value]) => Object.hasOwn(FIELDS, name) && !empty(value));
  const spec = Object.fromEntries(shown) as Spec;
  if (spec.autoscale !== undefined) delete spec.num_workers;
  if (spec.instance_pool_id !== undefined) delete spec.node_type_id; // a pool decides the node types
  if ((spec.driver_instance_pool_id ?? spec.instance_pool_id) !== undefined) delete spec.driver_node_type_id;
  return spec;
}

export interface Leaf {
  path: string[]; // of the size: ["size"]
  value: unknown;
}
export type Leaves = Map<string, Leaf>;

export function read(from: unknown, path: Path): unknown {
  let value = from;
  for (const key of path) value = typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
  return value;
}

const empty = (value: unknown) =>
  value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0);

/** A copy with another value there. What is empty is absent, and so is an object that held nothing else. */
export function write<T>(into: T, path: Path, value: unknown): T {
  const [key, ...rest] = path;
  if (key === undefined) return value as T;
  const old = (typeof into === "object" && into !== null ? into : {}) as Record<string, unknown>;
  const next = rest.length === 0 ? value : write(old[key], rest, value);
  const { [key]: _, ...others } = old;
  return (empty(next) ? others : { ...old, [key]: next }) as T;
}

export function same(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && same(Reflect.get(one, key), Reflect.get(other, key)))
  );
}

/** The fields of a specification that can differ, and be merged, by themselves. Lists are one field. */
export function leaves(spec: Spec): Leaves {
  const found: Leaves = new Map();
  const add = (path: string[], value: unknown) => found.set(JSON.stringify(path), { path, value });
  for (const [name, value] of Object.entries(spec)) {
    if (empty(value) || SIZE.includes(name)) continue;
    if (typeof value !== "object" || Array.isArray(value)) add([name], value);
    else for (const [key, inner] of Object.entries(value as object)) if (!empty(inner)) add([name, key], inner);
  }
  const size = Object.fromEntries(
    SIZE.flatMap((name) => (empty(read(spec, [name])) ? [] : [[name, read(spec, [name])]])),
  );
  if (!empty(size)) add(["size"], size);
  return found;
}

/** A copy of the specification with that field of another one; undefined: without it. */
export function put(spec: Spec, path: string[], value: unknown): Spec {
  if (path[0] !== "size") return write(spec, path, value);
  return SIZE.reduce((into, name) => write(into, [name], read(value, [name])), spec);
}

export interface Change {
  path: string[];
  before: unknown;
  after: unknown;
}

export function changes(before: Spec, after: Spec): Change[] {
  const old = leaves(before);
  const now = leaves(after);
  return [...new Set([...old.keys(), ...now.keys()])]
    .filter((key) => !same(old.get(key)?.value, now.get(key)?.value))
    .map((key) => ({
      path: (now.get(key) ?? old.get(key) ?? { path: [] }).path,
      before: old.get(key)?.value,
      after: now.get(key)?.value,
    }))
    .sort((one, other) => one.path.join("\0").localeCompare(other.path.join("\0")));
}

export interface Conflict {
  path: string[];
  mine: unknown;
  theirs: unknown;
}

/** What two people have made of one specification. Where both have changed a field, mine is kept and the conflict is told. */
export function merge(base: Spec, mine: Spec, theirs: Spec): { merged: Spec; conflicts: Conflict[] } {
  const own = new Map(changes(base, mine).map((each) => [JSON.stringify(each.path), each]));
  let merged = mine;
  const conflicts: Conflict[] = [];
  for (const each of changes(base, theirs)) {
    const also = own.get(JSON.stringify(each.path));
    if (also === undefined) merged = put(merged, each.path, each.after);
    else if (!same(also.after, each.after)) conflicts.push({ path: each.path, mine: also.after, theirs: each.after });
  }
  return { merged, conflicts };
}

export const isMap = (name: string) => MAPS.has(name);

/** A field's name for people who know the API: `spark_conf spark.sql.shuffle.partitions`. */
export const pathName = (path: string[]) =>
  path.length > 1 && isMap(path[0] ?? "") ? `${path[0]} ${path.slice(1).join(".")}` : path.join(".");

/** A value in one line. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  if (typeof value !== "object") return String(value);
  if (!Array.isArray(value)) return sizeShown(value as Spec) ?? JSON.stringify(value);
  return value.map((each, at) => `${at + 1}. ${typeof each === "string" ? each : JSON.stringify(each)}`).join("\n");
}

function sizeShown(value: Spec): string | undefined {
  if (!Object.keys(value).every((key) => SIZE.includes(key))) return undefined;
  if (value.is_single_node) return "single node";
  if (value.autoscale) return `${value.autoscale.min_workers ?? "?"} to ${value.autoscale.max_workers ?? "?"} workers`;
  return value.num_workers === undefined ? undefined : `${value.num_workers} workers`;
}
