import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { offered } from "../api/session";
import { lasting, useNow } from "../lib/time";
import { at, took, wanted } from "./phases";

export const operationQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "operation"],
    enabled: () => offered("/v1/clusters/{cluster_id}"),
    queryFn: async () =>
      (await body(api.GET("/v1/clusters/{cluster_id}", { params: { path: { cluster_id: id } } }))).data.operation ??
      null,
  });

const NAMES: Record<string, string> = {
  validating_configuration: "Check the configuration",
  acquiring_instances: "Acquire instances",
  restoring_snapshot: "Restore the snapshot",
  updating_configuration: "Set up the nodes",
  starting_services: "Start Spark",
  health_checks: "Run health checks",
  stopping_processes: "Stop processes",
  creating_checkpoint: "Save a checkpoint",
  notifying_processes: "Notify the nodes",
  waiting_for_graceful_exit: "Wait for programs to finish",
  creating_snapshot: "Save a snapshot",
  terminating_resources: "Terminate the nodes",
  cleaning_up: "Clean up",
};
const KINDS = { start: "Start", restart: "Restart", stop: "Stop" };

const SAYS = { pending: "not started", in_progress: "now", completed: "done", failed: "failed" };

/** The last start, restart or stop of a cluster as a line of steps with their times. */
export function Timeline({ id, live }: { id: string; live: boolean }) {
  const { data: operation } = useQuery({ ...operationQuery(id), refetchInterval: live ? false : 2000 });
  const now = useNow(1000);
  if (!operation || operation.status === "completed") return null;
  const left = operation.estimated_seconds_left;
  const current = operation.phases.find((each) => each.status === "in_progress");
  return (
    <section className="timeline" aria-label={`${KINDS[operation.kind]}: its phases`}>
      <ol>
        {operation.phases.filter(wanted).map((phase) => (
          <li
            key={phase.name}
            className={phase.status}
            aria-current={phase.status === "in_progress" ? "step" : undefined}
          >
            <b>{NAMES[phase.name] ?? phase.name}</b>
            <span className="unseen">{SAYS[phase.status]}</span>
            <span className="soft">{took(phase, now)}</span>
          </li>
        ))}
      </ol>
      {current && (
        <p role="status">
          <span>{current.message || "Waiting for the nodes"}</span>{" "}
          <span className="soft">
            for {lasting(now - (at(current.started_at) ?? now))}
            {left ? `; usually about ${lasting(left * 1000)} more` : ""}
          </span>
        </p>
      )}
    </section>
  );
}
