import { Text } from "@mantine/core";
import { Scroller } from "../../kit/scroller";
import { plain } from "../ansi";
import type { Job } from "../commands";
import { ResultView } from "../result/result";
import { type Run, waits } from "./cells";

const MOST_JOBS = 4;

/** What a cell's run shows: while it runs, what it prints and the progress of its Spark jobs; then its result. */
export function Output({ run }: { run: Run }) {
  const jobs = run.progress?.jobs ?? [];
  const printed = run.progress?.printed ?? "";
  return (
    <>
      {waits(run) && (
        <>
          {jobs.slice(0, MOST_JOBS).map((job) => (
            <JobProgress key={job.job_id} job={job} />
          ))}
          {jobs.length > MOST_JOBS && (
            <Text size="sm" c="dimmed">
              {jobs.length - MOST_JOBS} more Spark jobs
            </Text>
          )}
          {printed !== "" && (
            <Scroller className="printed" label="What the command has printed so far">
              {plain(printed)}
            </Scroller>
          )}
        </>
      )}
      {run.failure && (
        <Text c="var(--mantine-color-error)" role="alert" className="said">
          {run.failure}
        </Text>
      )}
      {run.note && (
        <Text size="sm" c="dimmed">
          {run.note}
        </Text>
      )}
      {run.dropped && (
        <Text size="sm" c="dimmed">
          The result was too large to keep in this browser. Run the cell again.
        </Text>
      )}
      {run.result && <ResultView result={run.result} />}
    </>
  );
}

function JobProgress({ job }: { job: Job }) {
  const { tasks = 0, completed_tasks: done = 0, active_tasks: active = 0, failed_tasks: failed = 0 } = job;
  const label = `Spark job ${job.job_id}`;
  return (
    <div className="job">
      <span>{label}</span>
      <progress aria-label={label} value={Math.min(done, tasks)} max={Math.max(1, tasks)} />
      <span className="soft">
        {done} of {tasks} tasks, {active} running{failed > 0 ? `, ${failed} failed` : ""}; stage{" "}
        {Math.min((job.completed_stages ?? 0) + 1, job.stages ?? 1)} of {job.stages}
      </span>
    </div>
  );
}
