import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { PlainTable } from "../kit/plaintable";
import { TaskGraph } from "../runs/graph";
import { needsOf } from "../runs/order";
import { inLine, notebookOf, workOf } from "../runs/words";
import { computeOf, type JobTask, retriesOf } from "./words";

/** The tasks of a job, and what each one waits for. */
export function Tasks({ tasks }: { tasks: JobTask[] }) {
  if (tasks.length === 0) return <Text size="sm">The job has no tasks.</Text>;
  return (
    <>
      <TaskGraph tasks={tasks} below={(task) => <span className="soft">{workOf(task).kind}</span>} />
      <PlainTable heads={["Task", "Runs", "Parameters", "Compute", "Depends on", "Retries"]}>
        {tasks.map((task) => (
          <Row key={task.task_key} task={task} />
        ))}
      </PlainTable>
    </>
  );
}

function Row({ task }: { task: JobTask }) {
  const { kind, what, parameters } = workOf(task);
  const { text, cluster, warehouse } = computeOf(task);
  const needs = needsOf(task);
  const notebook = notebookOf(task);
  return (
    <tr>
      <td data-label="Task">
        <span>
          <b>{task.task_key}</b>
          {task.disabled && <span className="soft"> Disabled</span>}
          {task.description && <span className="under">{task.description}</span>}
        </span>
      </td>
      <td data-label="Runs">
        <span>
          {kind}
          <span className="under mono">
            {notebook ? (
              <Link to="/workspace/notebook" search={{ path: notebook }}>
                {what}
              </Link>
            ) : (
              what
            )}
          </span>
        </span>
      </td>
      <td data-label="Parameters" className="mono">
        {inLine(parameters) || "-"}
      </td>
      <td data-label="Compute">
        {cluster ? (
          <Link to="/compute/clusters/$id" params={{ id: cluster }}>
            {text}
          </Link>
        ) : warehouse ? (
          <Link to="/compute/warehouses/$id" params={{ id: warehouse }}>
            {text}
          </Link>
        ) : (
          text || "-"
        )}
      </td>
      <td data-label="Depends on">
        <span>
          {needs || "-"}
          {needs && task.run_if && <span className="under">{task.run_if}</span>}
        </span>
      </td>
      <td data-label="Retries">{retriesOf(task) || "-"}</td>
    </tr>
  );
}
