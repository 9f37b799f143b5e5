import "./result/result.css";
import { Text } from "@mantine/core";
import type { Job } from "./commands";

const MOST_JOBS = 4;

/** The progress of the Spark jobs of what runs. */
export function JobsProgress({ jobs }: { jobs: Job[] }) {
  return (
    <>
      {jobs.slice(0, MOST_JOBS).map((job) => (
        <JobProgress key={job.job_id} job={job} />
      ))}
      {jobs.length > MOST_JOBS && (
        <Text size="sm" c="dimmed">
          {jobs.length - MOST_JOBS} more Spark jobs
        </Text>
      )}
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
