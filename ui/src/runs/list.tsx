import "../cluster/cluster.css";
import "../kit/pages.css";
import "./runs.css";
import { Button, Code, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { Search } from "../kit/searchfield";
import { useTitle } from "../kit/title";
import { ago, exactly, lasting, useNow } from "../lib/time";
import { runsQuery } from "./calls";
import { JobsHead } from "./head";
import { type RunsSearch, readRunsSearch } from "./search";
import { attemptsOf, type Run, stateOf, tookOf } from "./words";

const CODE = `w.jobs.submit(run_name="nightly", tasks=[jobs.SubmitTask(task_key="load",
    spark_python_task=jobs.SparkPythonTask(python_file="/Workspace/Shared/load.py"),
    existing_cluster_id="...")])`;

/** Runs that were submitted, the newest first. */
export function RunsPage() {
  const given = useSearch({ from: "/jobs/runs" });
  const search = useMemo(() => readRunsSearch({ ...given }), [given]);
  const navigate = useNavigate({ from: "/jobs/runs" });
  const change = (changed: Partial<RunsSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const [opened] = useState(Date.now); // a range that moved would ask again and again
  const asked = useInfiniteQuery(runsQuery(search, opened));
  useTitle("Job runs");
  const runs = asked.data?.pages.flatMap((page) => page.runs ?? []);
  const q = (search.q ?? "").toLowerCase();
  const shown = runs?.filter((run) =>
    [run.run_name, String(run.run_id), run.creator_user_name].some((text) => text.toLowerCase().includes(q)),
  );
  return (
    <div className="content">
      <JobsHead title="Job runs" />
      <Group gap={8} role="search" aria-label="Job runs">
        <Search text={search.q ?? ""} change={(text) => change({ q: text || undefined })} />
        <SegmentedControl
          size="xs"
          aria-label="State"
          data={[
            { value: "all", label: "All" },
            { value: "active", label: "Active" },
            { value: "completed", label: "Completed" },
          ]}
          value={search.show ?? "all"}
          onChange={(show) => change({ show: show === "all" ? undefined : (show as RunsSearch["show"]) })}
        />
        <SegmentedControl
          size="xs"
          aria-label="Started in the last"
          data={[
            { value: "1d", label: "Day" },
            { value: "7d", label: "Week" },
            { value: "all", label: "All time" },
          ]}
          value={search.range ?? "all"}
          onChange={(range) => change({ range: range === "all" ? undefined : (range as RunsSearch["range"]) })}
        />
      </Group>
      {shown === undefined ? (
        <Reading query={asked} what="Reading the runs" />
      ) : shown.length === 0 && !asked.hasNextPage ? (
        <None filtered={Object.keys(search).length > 0} clear={() => void navigate({ search: {} })} />
      ) : (
        <RunRows runs={shown} />
      )}
      {asked.hasNextPage && (
        <More what="Older runs" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </div>
  );
}

function None({ filtered, clear }: { filtered: boolean; clear: () => void }) {
  return (
    <Stack className="nothing" align="flex-start" gap="xs">
      {filtered ? (
        <>
          <Text>No runs match.</Text>
          <Button variant="default" onClick={clear}>
            Clear the filters
          </Button>
        </>
      ) : (
        <>
          <Text>No runs yet. The SDK, the CLI and Airflow submit them:</Text>
          <Code block>{CODE}</Code>
        </>
      )}
    </Stack>
  );
}

/** Runs in a table, each with the way to it. `ofJob`: of one job, to which no way is needed. */
export function RunRows({ runs, ofJob = false }: { runs: Run[]; ofJob?: boolean }) {
  const now = useNow(1000);
  return (
    <PlainTable heads={["Run", "State", "Tasks", "Started", "Took", "User"]}>
      {runs.map((run) => {
        const { word, look } = stateOf(run.state);
        const took = tookOf(run, now);
        return (
          <tr key={run.run_id}>
            <td data-label="Run" className="name-id">
              <span>
                <Link to="/jobs/runs/$id" params={{ id: String(run.run_id) }} className="runlink">
                  {ofJob ? exactly(run.start_time) : run.run_name || `Run ${run.run_id}`}
                </Link>
                <span className="under">
                  <span className="mono">{run.run_id}</span>
                  {run.run_type === "JOB_RUN" && !ofJob && (
                    <>
                      {" of "}
                      <Link to="/jobs/$id" params={{ id: String(run.job_id) }} className="runlink">
                        its job
                      </Link>
                    </>
                  )}
                </span>
              </span>
            </td>
            <td data-label="State">
              <span>
                <span className={`word ${look}`}>{word}</span>
                {(look === "bad" || run.state.life_cycle_state === "SKIPPED") && run.state.state_message && (
                  <span className="under">{run.state.state_message}</span>
                )}
              </span>
            </td>
            <td data-label="Tasks">{attemptsOf(run.tasks ?? []).length}</td>
            <td data-label="Started" title={exactly(run.start_time)}>
              {ago(run.start_time, now)}
            </td>
            <td data-label="Took">{took === undefined ? "-" : lasting(took)}</td>
            <td data-label="User">{run.creator_user_name}</td>
          </tr>
        );
      })}
    </PlainTable>
  );
}
