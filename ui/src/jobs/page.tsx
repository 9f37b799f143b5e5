import "../cluster/cluster.css";
import "../kit/pages.css";
import "../pools/pools.css";
import "../runs/runs.css";
import "./jobs.css";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { Permissions } from "../access/permissions";
import { useLevel } from "../access/rights";
import { FactList } from "../kit/factlist";
import { HeadButton, ObjectHead, ObjectPage } from "../kit/objectpage";
import { type ObjectTab, ObjectTabs } from "../kit/objecttabs";
import { isOver } from "../runs/words";
import { ACTIONS, type ActionName, useJobActions } from "./actions";
import { jobQuery, jobRunsQuery } from "./calls";
import { JobRuns } from "./runs";
import { type JobTab, readJobSearch } from "./search";
import { SettingsTab } from "./settings";
import { NextRun, ScheduleText } from "./state";
import { Tasks } from "./tasks";
import { isLocked, type Job, LEVELS, type Level, nameOf, scheduleOf } from "./words";

const RunNowDialog = lazy(async () => ({ default: (await import("./runnow")).RunNowDialog }));

export function JobPage() {
  const { id } = useParams({ from: "/jobs/$id" });
  return <OfJob key={id} id={Number(id)} />;
}

function OfJob({ id }: { id: number }) {
  const { tab } = readJobSearch({ ...useSearch({ from: "/jobs/$id" }) });
  const navigate = useNavigate({ from: "/jobs/$id" });
  const query = useQuery(jobQuery(id));
  const on = { of: "jobs", id: String(id) } as const;
  const may = useLevel(on, LEVELS);
  const open = (next: JobTab | undefined) => void navigate({ search: next === undefined ? {} : { tab: next } });
  const tabs = (job: Job, gone: boolean): ObjectTab<JobTab>[] => [
    { tab: "runs", label: "Runs", content: <JobRuns job={job} /> },
    { tab: "tasks", label: "Tasks", content: <Tasks tasks={job.settings.tasks ?? []} /> },
    { tab: "settings", label: "Settings", content: <SettingsTab job={job} /> },
    {
      tab: "permissions",
      label: "Permissions",
      content: <Permissions on={on} owner={job.creator_user_name} manage={!gone && may("CAN_MANAGE")} />,
    },
  ];
  return (
    <ObjectPage
      noun="job"
      query={query}
      title={query.data ? nameOf(query.data) : `Job ${id}`}
      back={{ to: "/jobs", label: "Jobs" }}
    >
      {(job, gone) => (
        <>
          <Header job={job} may={(level) => !gone && may(level)} gone={gone} />
          {isLocked(job.settings) && (
            <p className="soft" role="note">
              This job is managed by {job.settings.deployment?.kind === "BUNDLE" ? "a bundle" : "a deployment tool"}.
              Change it there and deploy again.
            </p>
          )}
          <ObjectTabs label="About the job" tabs={tabs(job, gone)} chosen={tab} open={open} />
        </>
      )}
    </ObjectPage>
  );
}

interface HeaderProps {
  job: Job;
  may: (level: Level) => boolean;
  gone: boolean;
}

function Header({ job, may, gone }: HeaderProps) {
  const navigate = useNavigate();
  const { busy, act } = useJobActions();
  const [asking, setAsking] = useState(false);
  const runs = useInfiniteQuery(jobRunsQuery(job.job_id)).data?.pages.flatMap((page) => page.runs ?? []);
  const active = runs?.some((run) => !isOver(run.state)) ?? false;
  const schedule = scheduleOf(job.settings);
  const why = (level: Level) => (may(level) ? undefined : `You need ${level} on this job`);
  const button = (action: ActionName, label = ACTIONS[action].label, after?: () => void) => (
    <HeadButton
      icon={ACTIONS[action].icon}
      label={label}
      why={why(ACTIONS[action].takes)}
      loading={busy !== undefined}
      onClick={() => void act(action, job).then((done) => done && after?.())}
    />
  );
  const actions = !gone && (
    <>
      {button("run")}
      <HeadButton
        icon="columns"
        label="Run now with parameters"
        why={why("CAN_MANAGE_RUN")}
        onClick={() => setAsking(true)}
      />
      {active && button("cancel")}
      {schedule && button(schedule.paused ? "resume" : "pause", `${schedule.paused ? "Resume" : "Pause"} schedule`)}
      {!isLocked(job.settings) && (
        <HeadButton
          icon="pencil"
          label="Edit"
          why={why("CAN_MANAGE")}
          onClick={() => void navigate({ to: "/jobs/$id/edit", params: { id: String(job.job_id) } })}
        />
      )}
      {button("delete", undefined, () => void navigate({ to: "/jobs", search: {} }))}
      {asking && (
        <Suspense fallback={null}>
          <RunNowDialog job={job} close={() => setAsking(false)} />
        </Suspense>
      )}
    </>
  );
  return (
    <ObjectHead name={nameOf(job)} topic="jobs" actions={actions} said={job.settings.description}>
      <FactList
        facts={[
          ["Schedule", <ScheduleText key="schedule" job={job} />],
          ["Next run", job.next_run_time && <NextRun key="next" job={job} />],
          ["Run as", job.run_as_user_name],
        ]}
        id={String(job.job_id)}
      />
    </ObjectHead>
  );
}
