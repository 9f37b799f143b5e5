import { exactly } from "../lib/time";
import type { Job } from "./words";
import { scheduleOf } from "./words";

/** When the job runs, and whether that is paused. */
export function ScheduleText({ job }: { job: Job }) {
  const found = scheduleOf(job.settings);
  if (found === undefined) return <span className="soft">None</span>;
  return (
    <span className="two">
      {found.text}
      {found.paused && <span className="soft"> · Paused</span>}
    </span>
  );
}

/** When the schedule comes next, as far as the workspace tells. */
export function NextRun({ job }: { job: Job }) {
  return job.next_run_time ? (
    <span className="two">{exactly(job.next_run_time)}</span>
  ) : (
    <span className="soft">-</span>
  );
}
