import { Link } from "@tanstack/react-router";
import { Icon, type IconName } from "../kit/icons";
import { exactly } from "../lib/time";
import { isOver, type Run, stateOf, type Task } from "./words";

const ICONS = { good: "check", bad: "alert", wait: "play", off: "clock" } as const satisfies Record<string, IconName>;

interface Props {
  run: Run;
  task?: Task; // whose state is shown; undefined: that of the run
}

/** The state of a run, or of its task, as a small mark that leads to the run. */
export function RunMark({ run, task }: Props) {
  const { state } = task ?? run;
  const { word, look } = stateOf(state);
  const text = `${task ? `${task.task_key}: ` : ""}${word}, ${exactly(run.start_time)}`;
  return (
    <Link
      to="/jobs/runs/$id"
      params={{ id: String(run.run_id) }}
      className={`runmark ${look}`}
      aria-label={text}
      title={text}
    >
      <Icon name={look === "off" && isOver(state) ? "close" : ICONS[look]} size={12} />
    </Link>
  );
}
