import { expect, it } from "vitest";
import { nestable, withTask } from "./newtask";

const tasksOf = (work: string | undefined) => JSON.parse(work ?? "{}").tasks;
const ON = { warehouse: "w" };

it("adds a task under a free key", () => {
  const one = withTask('{"tasks": [{"task_key": "sql"}]}', { ...ON, kind: "sql-query", what: "q" });
  expect(tasksOf(one)[1]).toEqual({ task_key: "sql_2", sql_task: { warehouse_id: "w", query: { query_id: "q" } } });
  const file = tasksOf(withTask("{}", { ...ON, kind: "sql-file", what: "/a.sql" }))[0];
  expect(file.sql_task.file).toEqual({ path: "/a.sql", source: "WORKSPACE" });
});

it("puts dbt, notebooks and files on the first job cluster", () => {
  const work = '{"job_clusters": [{"job_cluster_key": "main"}]}';
  const [task] = tasksOf(withTask(work, { ...ON, kind: "dbt", what: "/shop" }));
  expect(task.job_cluster_key).toBe("main");
  expect(task.dbt_task.project_directory).toBe("/shop");
  expect(tasksOf(withTask(work, { kind: "notebook", what: "/n" }))[0].job_cluster_key).toBe("main");
  expect(tasksOf(withTask(work, { kind: "python", what: "/n.py" }))[0].job_cluster_key).toBe("main");
});

it("adds tasks that need no cluster", () => {
  const [job] = tasksOf(withTask("{}", { kind: "run-job", what: "7" }));
  expect(job).toEqual({ task_key: "run_job", run_job_task: { job_id: 7 } });
  const [condition] = tasksOf(withTask("{}", { kind: "condition", what: "1", op: "LESS_THAN", right: "2" }));
  expect(condition.condition_task).toEqual({ op: "LESS_THAN", left: "1", right: "2" });
});

it("takes a task into a for-each task, which others may depend on by its own key only", () => {
  const work = '{"tasks": [{"task_key": "a"}, {"task_key": "b", "depends_on": [{"task_key": "a"}], "x": 1}]}';
  expect(nestable(work)).toEqual(["b"]);
  expect(tasksOf(withTask(work, { kind: "for-each", what: "[1]", nested: "b" }))).toEqual([
    { task_key: "a" },
    {
      task_key: "for_each",
      depends_on: [{ task_key: "a" }],
      for_each_task: { inputs: "[1]", concurrency: 1, task: { task_key: "b", x: 1 } },
    },
  ]);
  expect(withTask(work, { kind: "for-each", what: "[1]" })).toBeUndefined();
});

it("leaves a text alone that cannot be read", () => {
  expect(withTask("{", { ...ON, kind: "dbt", what: "/shop" })).toBeUndefined();
});
