import "./graph.css";
import type { ReactNode } from "react";
import { Scroller } from "../kit/scroller";
import { drawn, HEIGHT, WIDTH } from "./order";

interface Node {
  task_key: string;
  depends_on?: { task_key: string; outcome?: string | null }[] | null;
}

interface Props<T> {
  tasks: T[];
  below: (task: T) => ReactNode; // under its name
  href?: (task: T) => string;
}

const MOST = 200; // more are not seen at a look, and take long to draw

/** Tasks from left to right, in the order in which they can begin, with lines from what they depend on. */
export function TaskGraph<T extends Node>({ tasks, below, href }: Props<T>) {
  if (tasks.length < 2 || tasks.length > MOST) return null;
  const { width, height, boxes, edges } = drawn(tasks);
  return (
    <Scroller className="graph" label="Order of the tasks">
      <div className="graph-plane" style={{ width, height }}>
        <svg width={width} height={height} aria-hidden="true">
          {edges.map(({ from, to, path }) => (
            <path key={`${from} ${to}`} d={path} />
          ))}
        </svg>
        <ul>
          {boxes.map(({ task, left, top }) => (
            <li key={task.task_key} style={{ left, top, width: WIDTH, height: HEIGHT }}>
              {href ? (
                <a href={href(task)} title={task.task_key}>
                  {task.task_key}
                </a>
              ) : (
                <b title={task.task_key}>{task.task_key}</b>
              )}
              <span className="graph-below">
                {below(task)}
                <span className="unseen">{after(task)}</span>
              </span>
            </li>
          ))}
        </ul>
      </div>
    </Scroller>
  );
}

const after = ({ depends_on: needs }: Node) =>
  needs?.length
    ? ` after ${needs.map(({ task_key, outcome }) => (outcome ? `${task_key} (${outcome})` : task_key)).join(", ")}`
    : "";
