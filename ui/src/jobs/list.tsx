import "../cluster/cluster.css";
import "../kit/pages.css";
import "../pools/pools.css";
import "../runs/runs.css";
import "./jobs.css";
import { Button, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { Creator } from "../kit/creator";
import { DataTable } from "../kit/datatable";
import { Icon } from "../kit/icons";
import type { DataColumn } from "../kit/listing";
import { More } from "../kit/more";
import { sorted } from "../kit/order";
import { Beginning } from "../kit/overview";
import { Go, IconButton } from "../kit/plain";
import { Reading } from "../kit/reading";
import { Search } from "../kit/searchfield";
import { useTitle } from "../kit/title";
import { JobsHead } from "../runs/head";
import { RunMark } from "../runs/mark";
import { ACTIONS, useJobActions } from "./actions";
import { jobsQuery, lastRunsQuery } from "./calls";
import { type JobsSearch, readJobsSearch } from "./search";
import { NextRun, ScheduleText } from "./state";
import { type Job, nameOf, scheduleOf, tagTexts } from "./words";

const STEP = 100; // rows that are drawn at first, and with each "More"
const LAST = 5; // runs of each job

const CODE = `w.jobs.create(name="nightly", tasks=[jobs.Task(task_key="load",
    spark_python_task=jobs.SparkPythonTask(python_file="/Workspace/Shared/load.py"),
    existing_cluster_id="...")])`;

/** The jobs that one may see. */
export function JobsPage() {
  const given = useSearch({ from: "/jobs" });
  const search = useMemo(() => readJobsSearch({ ...given }), [given]);
  const navigate = useNavigate({ from: "/jobs" });
  const change = (changed: Partial<JobsSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const query = useInfiniteQuery(jobsQuery);
  const { data, hasNextPage, isFetchingNextPage, isError, fetchNextPage } = query;
  const [most, setMost] = useState(STEP);
  useTitle("Jobs");
  const q = (search.q ?? "").toLowerCase();
  // A search or an order is of all jobs, so all of them are read; else only what is shown.
  const whole = q !== "" || search.sort !== undefined;
  const jobs = useMemo(() => data?.pages.flatMap((page) => (page.jobs ?? []) as Job[]), [data]);
  const missing = hasNextPage && !isError && (whole || (jobs?.length ?? 0) < most);
  useEffect(() => {
    if (missing && !isFetchingNextPage) void fetchNextPage();
  }, [missing, isFetchingNextPage, fetchNextPage]);
  const found = useMemo(() => {
    const shown = jobs?.filter((job) => textsOf(job).some((text) => text.toLowerCase().includes(q)));
    return shown && sorted(shown, COLUMNS, search.sort);
  }, [jobs, q, search.sort]);
  return (
    <div className="content">
      <JobsHead title="Jobs">
        <Go to="/jobs/create" className="plainbutton main begin">
          Create job
        </Go>
      </JobsHead>
      {found === undefined ? (
        <Reading query={query} what="Reading the jobs" />
      ) : jobs?.length === 0 ? (
        <Beginning
          text="No jobs yet, or none that you have access to. A job runs its tasks on a schedule, or when someone starts it."
          to="/jobs/create"
          label="Create job"
          code={CODE}
        />
      ) : (
        <>
          <search aria-label="Jobs">
            <Search text={search.q ?? ""} by="name, id or tag" change={(text) => change({ q: text || undefined })} />
          </search>
          <Rows jobs={found.slice(0, most)} sort={search.sort} change={change} searching={missing} />
          {(found.length > most || hasNextPage) && (
            <More what="More jobs" loading={isFetchingNextPage} load={() => setMost((now) => now + STEP)} />
          )}
        </>
      )}
    </div>
  );
}

const textsOf = (job: Job) => [nameOf(job), String(job.job_id), job.run_as_user_name, ...tagTexts(job.settings)];

interface RowsProps {
  jobs: Job[];
  sort: string | undefined;
  change: (changed: Partial<JobsSearch>) => void;
  searching: boolean; // more jobs are being read
}

function Rows({ jobs, sort, change, searching }: RowsProps) {
  const { busy, act } = useJobActions();
  if (jobs.length === 0)
    return (
      <Stack className="nothing" align="flex-start" gap="xs">
        <Text>{searching ? "Searching ..." : "No jobs match."}</Text>
        <Button variant="default" onClick={() => change({ q: undefined })}>
          Clear the search
        </Button>
      </Stack>
    );
  return (
    <DataTable
      label="List of jobs"
      rows={jobs}
      idOf={(job) => String(job.job_id)}
      columns={COLUMNS}
      sort={sort}
      onSort={(next) => change({ sort: next })}
      actions={(job) => (
        <IconButton
          aria-label={`Run ${nameOf(job)} now`}
          tip={ACTIONS.run.label}
          disabled={busy === job.job_id}
          onClick={() => void act("run", job)}
        >
          <Icon name="play" size={14} />
        </IconButton>
      )}
    />
  );
}

const COLUMNS: DataColumn<Job>[] = [
  {
    id: "name",
    size: 180,
    header: "Name",
    accessorFn: nameOf,
    cell: ({ row: { original: job } }) => (
      <span className="name-id">
        <Link to="/jobs/$id" params={{ id: String(job.job_id) }}>
          {nameOf(job)}
        </Link>
        <span className="id">{job.job_id}</span>
      </span>
    ),
  },
  { id: "tags", size: 100, header: "Tags", accessorFn: (job) => tagTexts(job.settings).join(", ") },
  {
    id: "schedule",
    size: 150,
    header: "Schedule",
    accessorFn: (job) => scheduleOf(job.settings)?.text ?? "",
    cell: ({ row: { original: job } }) => <ScheduleText job={job} />,
  },
  {
    id: "next",
    size: 120,
    header: "Next run",
    accessorFn: (job) => job.next_run_time ?? Number.POSITIVE_INFINITY,
    cell: ({ row: { original: job } }) => <NextRun job={job} />,
  },
  {
    id: "runs",
    size: 150,
    header: "Last runs",
    enableSorting: false,
    accessorFn: () => 0,
    cell: ({ row: { original: job } }) => <LastRuns id={job.job_id} />,
  },
  {
    id: "creator",
    size: 120,
    header: "Run as",
    accessorFn: (job) => job.run_as_user_name,
    cell: ({ row: { original: job } }) => <Creator name={job.run_as_user_name} />,
  },
];

/** The last runs of a job, oldest first. They are asked for once the row comes into sight. */
function LastRuns({ id }: { id: number }) {
  const place = useRef<HTMLSpanElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (place.current === null) return;
    const observer = new IntersectionObserver((entries) => setSeen(entries.some((each) => each.isIntersecting)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  const runs = useQuery({ ...lastRunsQuery(id, LAST), enabled: seen }).data;
  return (
    <span className="runmarks" ref={place}>
      {runs?.length === 0 && <span className="soft">None</span>}
      {runs?.toReversed().map((run) => (
        <RunMark key={run.run_id} run={run} />
      ))}
    </span>
  );
}
