import { expect, it } from "vitest";
import { withTask } from "./newtask";

const tasksOf = (work: string | undefined) => JSON.parse(work ?? "{}").tasks;

it("adds a task under a free key", () => {
  const one = withTask('{"tasks": [{"task_key": "sql"}]}', "sql-query", "w", "q");
  expect(tasksOf(one)[1]).toEqual({ task_key: "sql_2", sql_task: { warehouse_id: "w", query: { query_id: "q" } } });
  const file = tasksOf(withTask("{}", "sql-file", "w", "/a.sql"))[0];
  expect(file.sql_task.file).toEqual({ path: "/a.sql", source: "WORKSPACE" });
});

it("puts dbt on the first job cluster", () => {
  const [task] = tasksOf(withTask('{"job_clusters": [{"job_cluster_key": "main"}]}', "dbt", "w", "/shop"));
  expect(task.job_cluster_key).toBe("main");
  expect(task.dbt_task.project_directory).toBe("/shop");
});

it("leaves a text alone that cannot be read", () => {
  expect(withTask("{", "dbt", "w", "/shop")).toBeUndefined();
});
