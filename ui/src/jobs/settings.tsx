import { Title } from "@mantine/core";
import type { ReactNode } from "react";
import { exactly, lasting } from "../lib/time";
import { NextRun, ScheduleText } from "./state";
import { type Job, tagTexts } from "./words";

const Rows = ({ label, rows }: { label: string; rows: [string, ReactNode][] }) => (
  <dl className="rows" aria-label={label}>
    {rows.map(
      ([name, value]) =>
        value && (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
    )}
  </dl>
);

/** What a job has beside its tasks. */
export function SettingsTab({ job }: { job: Job }) {
  const { settings } = job;
  const { parameters, job_clusters, timeout_seconds: timeout } = settings;
  return (
    <>
      <Rows
        label="Settings"
        rows={[
          ["Description", settings.description],
          ["Schedule", <ScheduleText key="schedule" job={job} />],
          ["Quartz expression", settings.schedule && <code>{settings.schedule.quartz_cron_expression}</code>],
          ["Trigger", job.trigger_state?.message],
          ["Next run", <NextRun key="next" job={job} />],
          ["Run as", job.run_as_user_name],
          ["Creator", `${job.creator_user_name}, ${exactly(job.created_time)}`],
          ["Tags", tagTexts(settings).join(", ")],
          ["Max concurrent runs", String(settings.max_concurrent_runs ?? 1)],
          [
            "Queue",
            settings.queue?.enabled ? "On: runs above the maximum wait" : "Off: runs above the maximum are skipped",
          ],
          ["Timeout", timeout ? lasting(timeout * 1000) : undefined],
        ]}
      />
      {parameters && parameters.length > 0 && (
        <section aria-label="Job parameters">
          <Title order={2} size="h4">
            Job parameters
          </Title>
          <Rows
            label="Job parameters"
            rows={parameters.map((each) => [each.name, <code key="of">{each.default || '""'}</code>])}
          />
        </section>
      )}
      {job_clusters && job_clusters.length > 0 && (
        <section aria-label="Job clusters">
          <Title order={2} size="h4">
            Job clusters
          </Title>
          {job_clusters.map(({ job_cluster_key: key, new_cluster: cluster }) => (
            <details key={key}>
              <summary>
                <b>{key}</b>{" "}
                <span className="soft">{[cluster.node_type_id, cluster.spark_version].filter(Boolean).join(", ")}</span>
              </summary>
              <pre className="sample">{JSON.stringify(cluster, null, 2)}</pre>
            </details>
          ))}
        </section>
      )}
    </>
  );
}
