import type { components } from "../api/schema";

export type Run = components["schemas"]["RunView"];
export type Task = components["schemas"]["RunTask"];
type Kind =
  | "notebook_task"
  | "spark_python_task"
  | "python_wheel_task"
  | "spark_jar_task"
  | "sql_task"
  | "dbt_task"
  | "condition_task";
type Work = Partial<Pick<Task, Kind | "run_job_task" | "for_each_task">>;
type State = components["schemas"]["RunState"];

const OVER = new Set(["TERMINATED", "SKIPPED", "INTERNAL_ERROR"]);
export const isOver = (state: State) => OVER.has(state.life_cycle_state);

/** A state in one word, and how it looks. */
export function stateOf(state: State): { word: string; look: "good" | "wait" | "off" | "bad" } {
  const plain = (text: string) => text.charAt(0) + text.slice(1).toLowerCase().replaceAll("_", " ");
  if (!isOver(state)) {
    const waits = ["BLOCKED", "PENDING", "QUEUED"].includes(state.life_cycle_state);
    return { word: plain(state.life_cycle_state), look: waits ? "off" : "wait" };
  }
  if (state.result_state === "SUCCESS") return { word: "Succeeded", look: "good" };
  if (state.life_cycle_state === "SKIPPED") return { word: "Skipped", look: "off" };
  if (state.result_state === "CANCELED") return { word: "Cancelled", look: "off" };
  if (state.result_state === "TIMEDOUT") return { word: "Timed out", look: "bad" };
  if (state.result_state === "SUCCESS_WITH_FAILURES") return { word: "Succeeded with failures", look: "good" };
  return { word: "Failed", look: "bad" };
}

const named = (given?: Record<string, string> | null) =>
  Object.entries(given ?? {}).map(([name, value]) => `${name}=${value}`);

/** The SQL warehouse that a task uses. */
export const warehouseOf = ({ notebook_task, sql_task, dbt_task }: Work) =>
  sql_task?.warehouse_id ?? dbt_task?.warehouse_id ?? notebook_task?.warehouse_id ?? undefined;

/** The path of a task's notebook in the workspace. */
export const notebookOf = ({ notebook_task: task }: Work) =>
  task && task.source !== "GIT" ? task.notebook_path : undefined;

/** What a task runs: its kind, the file, entry point or class, and the parameters. */
export function workOf(task: Work): { kind: string; what: string; parameters: string[] } {
  const { spark_python_task: file, python_wheel_task: wheel, spark_jar_task: jar, condition_task: condition } = task;
  if (file) return { kind: "Python file", what: file.python_file, parameters: file.parameters ?? [] };
  if (wheel) {
    return {
      kind: "Python wheel",
      what: `${wheel.package_name}:${wheel.entry_point}`,
      parameters: [...(wheel.parameters ?? []), ...named(wheel.named_parameters)],
    };
  }
  if (jar) return { kind: "JAR", what: jar.main_class_name ?? "", parameters: jar.parameters ?? [] };
  if (task.notebook_task) {
    const { notebook_path: what, base_parameters } = task.notebook_task;
    return { kind: "Notebook", what, parameters: named(base_parameters) };
  }
  if (task.sql_task) {
    const { file: text, query, parameters } = task.sql_task;
    const kind = text ? "SQL file" : "SQL query";
    return { kind, what: text?.path ?? query?.query_id ?? "", parameters: named(parameters) };
  }
  if (task.dbt_task)
    return { kind: "dbt", what: task.dbt_task.project_directory ?? "", parameters: task.dbt_task.commands };
  if (condition) {
    const { left, op, right } = condition;
    return { kind: "Condition", what: [left, op, right].map((each) => each || '""').join(" "), parameters: [] };
  }
  if (task.run_job_task) {
    const given = Object.entries(task.run_job_task.job_parameters ?? {});
    return {
      kind: "Job",
      what: String(task.run_job_task.job_id),
      parameters: given.map(([name, value]) => `${name}=${value}`),
    };
  }
  if (task.for_each_task) return { kind: "For each", what: task.for_each_task.inputs, parameters: [] };
  return { kind: "Task", what: "", parameters: [] };
}

/** Parameters in a line, as in a shell. */
export const inLine = (parameters: string[]) =>
  parameters.map((each) => (/^[\w@%+=:,./{}-]+$/.test(each) ? each : JSON.stringify(each))).join(" ");

/** The attempts of each task, in the order in which tasks are listed. */
export function attemptsOf(tasks: Task[]): Task[][] {
  const found = new Map<string, Task[]>();
  for (const task of tasks) found.set(task.task_key, [...(found.get(task.task_key) ?? []), task]);
  return [...found.values()].map((each) => each.sort((one, other) => one.attempt_number - other.attempt_number));
}

/** How long it took, or has taken until now. */
export const tookOf = (each: Pick<Run, "start_time" | "end_time"> | Task, now: number) =>
  each.start_time ? (each.end_time ?? now) - each.start_time : undefined;
