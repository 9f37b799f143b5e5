import { jsonObject } from "../lib/json";

/** What a kind needs besides its task: a warehouse, a job cluster, or nothing. */
type On = "warehouse" | "cluster" | "nothing";

export const KINDS = [
  { value: "notebook", label: "Notebook", on: "cluster" },
  { value: "python", label: "Python file", on: "cluster" },
  { value: "sql-file", label: "SQL file", on: "warehouse" },
  { value: "sql-query", label: "Saved SQL query", on: "warehouse" },
  { value: "dbt", label: "dbt", on: "warehouse" },
  { value: "run-job", label: "Run job", on: "nothing" },
  { value: "condition", label: "If/else condition", on: "nothing" },
  { value: "for-each", label: "For each", on: "nothing" },
] as const satisfies { value: string; label: string; on: On }[];
export type Kind = (typeof KINDS)[number]["value"];

const KEYS: Record<Kind, string> = {
  notebook: "notebook",
  python: "python",
  "sql-file": "sql",
  "sql-query": "sql",
  dbt: "dbt",
  "run-job": "run_job",
  condition: "condition",
  "for-each": "for_each",
};
export const OPS = [
  "EQUAL_TO",
  "NOT_EQUAL",
  "GREATER_THAN",
  "GREATER_THAN_OR_EQUAL",
  "LESS_THAN",
  "LESS_THAN_OR_EQUAL",
];

/** What a new task is made of. `what`: a path, or the id of a query or a job; a condition's left side; a for-each task's inputs.
 * `nested`: the key of the task that a for-each task takes in. */
export interface NewTask {
  kind: Kind;
  what: string;
  warehouse?: string;
  op?: string;
  right?: string;
  nested?: string;
}

interface Task {
  task_key?: string;
  depends_on?: { task_key?: string }[];
  for_each_task?: unknown;
}
interface Work {
  tasks?: Task[];
  job_clusters?: { job_cluster_key?: string }[];
}

/** The tasks that a for-each task can take in: those on which no other one depends. */
export function nestable(work: string): string[] {
  const { tasks = [] } = (jsonObject(work).object ?? {}) as Work;
  const needed = new Set(tasks.flatMap((each) => (each.depends_on ?? []).map((need) => need.task_key)));
  const found = tasks.filter((each) => !each.for_each_task && !needed.has(each.task_key));
  return found.flatMap((each) => each.task_key ?? []);
}

function made({ kind, warehouse, what, op, right }: NewTask, cluster: string | undefined): object {
  const on = cluster && { job_cluster_key: cluster };
  switch (kind) {
    case "notebook":
      return { notebook_task: { notebook_path: what, source: "WORKSPACE" }, ...on };
    case "python":
      return { spark_python_task: { python_file: what }, ...on };
    case "sql-file":
      return { sql_task: { warehouse_id: warehouse, file: { path: what, source: "WORKSPACE" } } };
    case "sql-query":
      return { sql_task: { warehouse_id: warehouse, query: { query_id: what } } };
    case "dbt":
      return {
        dbt_task: {
          warehouse_id: warehouse,
          project_directory: what,
          commands: ["dbt deps", "dbt build"],
          schema: "default",
        },
        libraries: [{ pypi: { package: "dbt-databricks>=1.11" } }],
        ...on,
      };
    case "run-job":
      return { run_job_task: { job_id: Number(what) } };
    case "condition":
      return { condition_task: { op: op ?? OPS[0], left: what, right: right ?? "" } };
    case "for-each":
      return {};
  }
}

/** Tasks and job clusters as JSON, with one more task. Undefined: the text cannot be read, or has no such task to take in. */
export function withTask(work: string, wanted: NewTask): string | undefined {
  const { object, mistake } = jsonObject(work);
  if (object === undefined || mistake !== undefined) return undefined;
  const { tasks = [], job_clusters: shared = [] } = object as Work;
  const taken = new Set(tasks.map((each) => each.task_key));
  const base = KEYS[wanted.kind];
  let key = base;
  for (let number = 2; taken.has(key); number++) key = `${base}_${number}`;
  const inner = tasks.find((each) => each.task_key === wanted.nested);
  if (wanted.kind === "for-each") {
    if (inner === undefined) return undefined;
    const { depends_on, ...nested } = inner;
    const loop = {
      task_key: key,
      ...(depends_on && { depends_on }),
      for_each_task: { inputs: wanted.what, concurrency: 1, task: nested },
    };
    return JSON.stringify({ ...object, tasks: tasks.map((each) => (each === inner ? loop : each)) }, null, 2);
  }
  const task = { task_key: key, ...made(wanted, shared[0]?.job_cluster_key) };
  return JSON.stringify({ ...object, tasks: [...tasks, task] }, null, 2);
}
