import { jsonObject } from "../lib/json";

export const KINDS = [
  { value: "sql-file", label: "SQL file" },
  { value: "sql-query", label: "Saved SQL query" },
  { value: "dbt", label: "dbt" },
] as const;
export type Kind = (typeof KINDS)[number]["value"];

interface Work {
  tasks?: { task_key?: string }[];
  job_clusters?: { job_cluster_key?: string }[];
}

/** A task of that kind on a warehouse. `what`: the path of its file or project, or the id of its query. */
function made(kind: Kind, warehouse_id: string, what: string, cluster: string | undefined): object {
  if (kind === "sql-file") return { sql_task: { warehouse_id, file: { path: what, source: "WORKSPACE" } } };
  if (kind === "sql-query") return { sql_task: { warehouse_id, query: { query_id: what } } };
  return {
    dbt_task: { warehouse_id, project_directory: what, commands: ["dbt deps", "dbt build"], schema: "default" },
    libraries: [{ pypi: { package: "dbt-databricks>=1.11" } }],
    ...(cluster && { job_cluster_key: cluster }),
  };
}

/** Tasks and job clusters as JSON, with one more task. Undefined: the text cannot be read. */
export function withTask(work: string, kind: Kind, warehouse: string, what: string): string | undefined {
  const { object, mistake } = jsonObject(work);
  if (object === undefined || mistake !== undefined) return undefined;
  const { tasks = [], job_clusters: shared = [] } = object as Work;
  const taken = new Set(tasks.map((each) => each.task_key));
  const base = kind === "dbt" ? "dbt" : "sql";
  let key: string = base;
  for (let number = 2; taken.has(key); number++) key = `${base}_${number}`;
  const task = { task_key: key, ...made(kind, warehouse, what, shared[0]?.job_cluster_key) };
  return JSON.stringify({ ...object, tasks: [...tasks, task] }, null, 2);
}
