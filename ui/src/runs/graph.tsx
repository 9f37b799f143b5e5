import "./graph.css";
import type { ReactNode } from "react";
import { Scroller } from "../kit/scroller";
import { drawn, HEIGHT, needsOf, type Ordered, WIDTH } from "./order";

interface Props<T> {
  tasks: T[];
  below: (task: T) => ReactNode; // under its name
  href?: (task: T) => string;
}

const MOST = 200; // more are not seen at a look, and take long to draw

/** Tasks from left to right, in the order in which they can begin, with lines from what they depend on. */
export function TaskGraph<T extends Ordered>({ tasks, below, href }: Props<T>) {
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
                {needsOf(task) && <span className="unseen"> after {needsOf(task)}</span>}
              </span>
            </li>
          ))}
        </ul>
      </div>
    </Scroller>
  );
}
