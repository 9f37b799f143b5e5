import "../cluster/cluster.css";
import "../kit/pages.css";
import "./runs.css";
import { Button, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { words } from "../api/client";
import { clustersQuery } from "../api/queries";
import { offered } from "../api/session";
import { plain } from "../code/ansi";
import { confirm } from "../kit/confirm";
import { CopyIcon } from "../kit/copy";
import { FactList } from "../kit/factlist";
import { Icon } from "../kit/icons";
import { ObjectHead } from "../kit/objectpage";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { useTitle } from "../kit/title";
import { toast } from "../kit/toasts";
import { exactly, lasting, useNow } from "../lib/time";
import { cancelRun, deleteRun, outputQuery, runQuery } from "./calls";
import { TaskGraph } from "./graph";
import { Iterations } from "./iterations";
import { columnsOf, needsOf } from "./order";
import { Repair, RepairHistory } from "./repair";
import { OnWarehouse, SqlOutput } from "./sqloutput";
import {
  attemptsOf,
  inLine,
  isOver,
  notebookOf,
  type Run,
  stateOf,
  type Task,
  tookOf,
  warehouseOf,
  workOf,
} from "./words";

const NotebookOutput = lazy(() => import("./notebook"));

/** One run: its tasks, each with its attempts and what they printed. */
export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const asked = useQuery(runQuery(Number(id)));
  const run = asked.data;
  useTitle(run?.run_name || `Run ${id}`);
  return (
    <div className="content cluster">
      <nav aria-label="Breadcrumb">
        <Link to="/jobs/runs" search={{}} className="soft">
          Job runs
        </Link>
      </nav>
      {run === undefined ? <Reading query={asked} what="Reading the run" /> : <Shown run={run} />}
    </div>
  );
}

function Shown({ run }: { run: Run }) {
  const now = useNow(1000);
  const { word, look } = stateOf(run.state);
  const took = tookOf(run, now);
  const attempts = new Map(attemptsOf(run.tasks ?? []).map((each) => [each[0]?.task_key, each]));
  const tasks = [...attempts.values()].map((each) => each.at(-1) as Task);
  const ofJob = run.run_type === "JOB_RUN";
  const ofTask = run.run_id !== run.job_run_id; // the page of one task
  return (
    <>
      <ObjectHead
        name={run.run_name || `Run ${run.run_id}`}
        topic="jobs"
        beside={<span className={`word ${look}`}>{word}</span>}
        actions={!ofTask && <Actions run={run} />}
        said={run.state.state_message}
      >
        <FactList
          facts={[
            ["Run", ofTask && <WholeRun id={run.job_run_id} />],
            ["Job", ofJob && <JobLink id={run.job_id} name={ofTask ? "" : run.run_name} />],
            ["Trigger", ofJob && (TRIGGERS[run.trigger] ?? run.trigger)],
            ["User", run.creator_user_name],
            ["Started", exactly(run.start_time)],
            ["Queued for", run.queue_duration && lasting(run.queue_duration)],
            ["Took", took === undefined ? undefined : lasting(took)],
          ]}
          id={String(run.run_id)}
        />
      </ObjectHead>
      {run.state.life_cycle_state === "SKIPPED" && (
        <div className="gone" role="note">
          <b>This run was skipped.</b> None of its tasks began.
        </div>
      )}
      <Given run={run} />
      <RepairHistory run={run} />
      <TaskGraph
        tasks={tasks}
        href={(task) => `#${idOf(task.task_key)}`}
        below={(task) => <TaskState task={task} now={now} />}
      />
      {columnsOf(tasks).flatMap((column) =>
        column.map(({ task_key: key }) => <TaskSection key={key} attempts={attempts.get(key) ?? []} now={now} />),
      )}
    </>
  );
}

const TRIGGERS: Record<string, string> = {
  ONE_TIME: "Run now",
  PERIODIC: "Schedule",
  RETRY: "Retry",
  RUN_JOB_TASK: "Task of another job",
};

const JobLink = ({ id, name }: { id: number; name: string }) => (
  <Link to="/jobs/$id" params={{ id: String(id) }} activeOptions={{ exact: true }}>
    {name || `Job ${id}`}
  </Link>
);

const WholeRun = ({ id }: { id: number }) => (
  <Link to="/jobs/runs/$id" params={{ id: String(id) }}>
    {useQuery(runQuery(id)).data?.run_name || id}
  </Link>
);

const idOf = (key: string) => `task-${key}`;

function TaskState({ task, now }: { task: Task; now: number }) {
  const { word, look } = stateOf(task.state);
  const took = tookOf(task, now);
  return (
    <>
      <span className={`word ${look}`}>{word}</span>
      {took !== undefined && <span className="soft"> {lasting(took)}</span>}
    </>
  );
}

/** What the run has from its job: parameters, and the clusters that its tasks share. */
function Given({ run }: { run: Run }) {
  const { job_parameters: parameters, job_clusters: shared } = run;
  const clusterOf = (key: string) =>
    run.tasks?.find((task) => task.job_cluster_key === key && task.cluster_instance)?.cluster_instance?.cluster_id;
  if (!parameters?.length && !shared?.length) return null;
  return (
    <dl className="rows" aria-label="Parameters and job clusters">
      {parameters?.map((each) => (
        <div key={each.name}>
          <dt>Parameter {each.name}</dt>
          <dd className="mono">
            {each.value ?? each.default}
            {each.value !== each.default && each.default != null && (
              <span className="soft"> (default: {each.default || '""'})</span>
            )}
          </dd>
        </div>
      ))}
      {shared?.map(({ job_cluster_key: key, new_cluster: { node_type_id, spark_version } }) => {
        const id = clusterOf(key);
        return (
          <div key={`cluster ${key}`}>
            <dt>Job cluster {key}</dt>
            <dd>
              {[node_type_id, spark_version].filter(Boolean).join(", ")}{" "}
              {id && (
                <Link to="/compute/clusters/$id" params={{ id }}>
                  {id}
                </Link>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function Actions({ run }: { run: Run }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const failed = (error: unknown) => toast(words(error), { failed: true });
  const whole = run.job_run_id;
  const cancelling = useMutation({
    mutationFn: () => cancelRun(whole),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["run"] }),
    onError: failed,
  });
  const deleting = useMutation({
    mutationFn: () => deleteRun(whole),
    onSuccess: async () => {
      toast("The run was deleted.");
      await navigate({ to: "/jobs/runs", search: {} });
    },
    onError: failed,
  });
  const name = run.run_name || `run ${run.run_id}`;
  const cancel = async () => {
    const consequence = "Its tasks are stopped, and its job clusters end.";
    if (await confirm({ title: `Cancel ${name}?`, consequence, action: "Cancel the run" })) cancelling.mutate();
  };
  const remove = async () => {
    const consequence = "Its output is lost. This cannot be undone.";
    if (await confirm({ title: `Delete ${name}?`, consequence, action: "Delete" })) deleting.mutate();
  };
  return isOver(run.state) ? (
    <>
      <Repair run={run} />
      <Button
        variant="default"
        leftSection={<Icon name="trash" size={14} />}
        loading={deleting.isPending}
        onClick={() => void remove()}
      >
        Delete
      </Button>
    </>
  ) : (
    <Button
      variant="default"
      leftSection={<Icon name="stop" size={14} />}
      loading={cancelling.isPending}
      onClick={() => void cancel()}
    >
      Cancel
    </Button>
  );
}

function TaskSection({ attempts, now }: { attempts: Task[]; now: number }) {
  const task = attempts.at(-1) as Task;
  const { kind, what, parameters } = workOf(task);
  const notebook = notebookOf(task);
  const needs = needsOf(task);
  return (
    <section id={idOf(task.task_key)} className="task" aria-label={`Task ${task.task_key}`}>
      <Title order={2} size="h4">
        {task.task_key}
      </Title>
      {task.description && <Text size="sm">{task.description}</Text>}
      <dl className="rows">
        <div>
          <dt>{kind}</dt>
          <dd className="mono">
            {notebook ? (
              <Link to="/workspace/notebook" search={{ path: notebook }}>
                {what}
              </Link>
            ) : (
              what
            )}{" "}
            {what && <CopyIcon text={what} what={`Copy the name of the ${kind.toLowerCase()}`} />}
          </dd>
        </div>
        {parameters.length > 0 && (
          <div>
            <dt>Parameters</dt>
            <dd className="mono">{inLine(parameters)}</dd>
          </div>
        )}
        {needs && (
          <div>
            <dt>After</dt>
            <dd>
              {needs} {task.run_if && <span className="soft">({task.run_if})</span>}
            </dd>
          </div>
        )}
      </dl>
      {attempts.map((each, at) => (
        <Attempt
          key={each.run_id}
          attempt={each}
          last={at === attempts.length - 1}
          several={attempts.length > 1}
          now={now}
        />
      ))}
    </section>
  );
}

interface AttemptProps {
  attempt: Task;
  last: boolean;
  several: boolean;
  now: number;
}

function Attempt({ attempt, last, several, now }: AttemptProps) {
  const { word, look } = stateOf(attempt.state);
  const took = tookOf(attempt, now);
  const cluster = attempt.cluster_instance?.cluster_id ?? attempt.existing_cluster_id;
  const warehouse = warehouseOf(attempt);
  return (
    <div className="attempt">
      <p>
        {several && <b>Attempt {attempt.attempt_number + 1}: </b>}
        <span className={`word ${look}`}>{word}</span>
        {took !== undefined && <span className="soft"> {lasting(took)}</span>}
        {attempt.setup_duration != null && (
          <span className="soft">, of which setup {lasting(attempt.setup_duration)}</span>
        )}
        {warehouse && <OnWarehouse id={warehouse} />}
        {cluster && <Where id={cluster} job={attempt.new_cluster != null || attempt.job_cluster_key != null} />}
      </p>
      {attempt.state.state_message && <p className="said">{attempt.state.state_message}</p>}
      {attempt.condition_task?.outcome && (
        <p>
          Outcome: <b>{attempt.condition_task.outcome}</b>
        </p>
      )}
      {attempt.for_each_task && attempt.start_time && last && <Iterations attempt={attempt} now={now} />}
      {(last || look === "bad") && attempt.start_time && !attempt.condition_task && !attempt.for_each_task && (
        <Shows attempt={attempt} />
      )}
    </div>
  );
}

function Shows({ attempt }: { attempt: Task }) {
  const printed = <Output id={attempt.run_id} over={isOver(attempt.state)} known={attempt.state.state_message ?? ""} />;
  if (!attempt.notebook_task || !offered("/api/2.2/jobs/runs/cells")) return printed;
  return (
    <Suspense fallback={<Text c="dimmed">Loading the notebook</Text>}>
      <NotebookOutput id={attempt.run_id} otherwise={printed} />
    </Suspense>
  );
}

/** The cluster of an attempt, with the way to its logs. */
function Where({ id, job }: { id: string; job: boolean }) {
  const found = useQuery(clustersQuery).data?.find((each) => each.cluster_id === id);
  return (
    <span className="soft">
      {" "}
      on the {job ? "job cluster" : "cluster"}{" "}
      <Link to="/compute/clusters/$id" params={{ id }}>
        {found?.cluster_name || id}
      </Link>
      ,{" "}
      <Link to="/compute/clusters/$id" params={{ id }} search={{ tab: "logs" }}>
        logs
      </Link>
    </span>
  );
}

/** `known`: what is said above already. */
function Output({ id, over, known }: { id: number; over: boolean; known: string }) {
  const asked = useQuery(outputQuery(id, over));
  const found = asked.data;
  if (found === undefined) return <Reading query={asked} what="Reading the output" rows={3} />;
  const trace = found.error_trace || found.error;
  if (found.run_job_output)
    return (
      <p>
        <Link to="/jobs/runs/$id" params={{ id: String(found.run_job_output.run_id) }}>
          Run {found.run_job_output.run_id}
        </Link>
      </p>
    );
  return (
    <>
      {trace && trace.trim() !== known.trim() && (
        <Scroller className="code bad" label="Error">
          {plain(trace)}
        </Scroller>
      )}
      {found.sql_output ? (
        <SqlOutput output={found.sql_output} over={over} />
      ) : found.logs ? (
        <>
          {found.logs_truncated && (
            <Text size="sm" c="dimmed">
              The last 5 MiB of the output.
            </Text>
          )}
          <Scroller className="code" label="Output">
            {plain(found.logs)}
          </Scroller>
        </>
      ) : (
        <Text size="sm" c="dimmed">
          {over ? "It printed nothing." : "Output is shown when the task has ended."}
        </Text>
      )}
    </>
  );
}
