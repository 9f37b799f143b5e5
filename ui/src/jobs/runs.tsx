import { Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { More } from "../kit/more";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { exactly } from "../lib/time";
import { RunRows } from "../runs/list";
import { RunMark } from "../runs/mark";
import { columnsOf } from "../runs/order";
import { attemptsOf, type Run } from "../runs/words";
import { jobRunsQuery } from "./calls";
import type { Job } from "./words";

const COLUMNS = 20; // runs of the matrix

/** The runs of a job: the last ones by task, and all of them as a list. */
export function JobRuns({ job }: { job: Job }) {
  const query = useInfiniteQuery(jobRunsQuery(job.job_id));
  const runs = query.data?.pages.flatMap((page) => (page.runs ?? []) as Run[]);
  if (runs === undefined) return <Reading query={query} what="Reading the runs" />;
  if (runs.length === 0) return <Text size="sm">No runs yet. Run now starts one.</Text>;
  return (
    <>
      <Matrix job={job} runs={runs.slice(0, COLUMNS)} />
      <RunRows runs={runs} ofJob />
      {query.hasNextPage && (
        <More what="Older runs" loading={query.isFetchingNextPage} load={() => void query.fetchNextPage()} />
      )}
    </>
  );
}

/** The state of each task in each of the last runs, the newest first. */
function Matrix({ job, runs }: { job: Job; runs: Run[] }) {
  const now = columnsOf(job.settings.tasks ?? []).flatMap((column) => column.map((task) => task.task_key));
  const before = runs.flatMap((run) => (run.tasks ?? []).map((task) => task.task_key));
  const keys = [...new Set([...now, ...before])];
  return (
    <section aria-label="Tasks by run">
      <Title order={2} size="h4">
        Last runs by task
      </Title>
      <Scroller className="matrix" label="Last runs by task">
        <table>
          <thead>
            <tr>
              <th scope="col">Run</th>
              {runs.map((run) => (
                <th key={run.run_id} scope="col">
                  <span className="unseen">Run of {exactly(run.start_time)}</span>
                  <RunMark run={run} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key}>
                <th scope="row">{key}</th>
                {runs.map((run) => {
                  const attempts = attemptsOf((run.tasks ?? []).filter((task) => task.task_key === key))[0];
                  const task = attempts?.at(-1);
                  return <td key={run.run_id}>{task && <RunMark run={run} task={task} />}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
    </section>
  );
}
