import { NativeSelect, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiError, type Cluster, words } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { clustersQuery } from "../api/queries";
import { Away } from "../cluster/console/console";
import { isOwned, nameOf } from "../clusters/facts";
import { useRights } from "../clusters/rights";
import { languagesQuery } from "../code/commands";
import { useValue } from "../lib/value";
import type { OpenNotebook } from "./book";

export interface Attachment {
  clusters: Cluster[] | undefined;
  cluster: Cluster | undefined;
  runs: boolean; // it takes commands
  refused: string; // why the user may not run anything there
  attach: (id: string) => void;
}

const isRunning = (each: Cluster) => each.state === "RUNNING" || each.state === "RESIZING";

/** The cluster on which the notebook runs. */
export function useAttachment(book: OpenNotebook): Attachment {
  const queries = useQueryClient();
  const live = useValue(connection) === "live";
  const asked = useQuery({ ...clustersQuery, refetchInterval: live ? false : POLL_MS });
  const clusters = asked.data
    ?.filter((each) => !isOwned(each))
    .sort((a, b) => Number(isRunning(b)) - Number(isRunning(a)) || nameOf(a).localeCompare(nameOf(b)));
  const session = useValue(book.runs);
  const id = session?.cluster ?? "";
  const cluster = clusters?.find((each) => each.cluster_id === id);
  const attach = (to: string) =>
    book.attach(to, () => void queries.invalidateQueries({ queryKey: ["cluster", to, "attached"] }));
  const latest = { attach, suggested: book.suggested() };
  const known = clusters !== undefined;
  const suggests = known && id === "" && clusters.some((each) => each.cluster_id === latest.suggested);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the suggestion counts once, when the clusters are known
  useEffect(() => {
    if (suggests) latest.attach(latest.suggested);
  }, [known]);
  const languages = useQuery({ ...languagesQuery(id), enabled: id !== "" });
  const refused = languages.error instanceof ApiError && languages.error.status === 403 ? words(languages.error) : "";
  const runs = cluster !== undefined && isRunning(cluster) && refused === "";
  const started = String(cluster?.last_restarted_time ?? cluster?.start_time ?? "");
  useEffect(() => {
    if (runs) session?.startedAgain(started);
  }, [session, runs, started]);
  return { clusters, cluster, runs, refused, attach };
}

export function ClusterPicker({ clusters, cluster, attach }: Attachment) {
  const data = (clusters ?? []).map((each) => ({
    value: each.cluster_id,
    label: isRunning(each) ? nameOf(each) : `${nameOf(each)} (${each.state ?? ""})`,
  }));
  return (
    <NativeSelect
      size="xs"
      aria-label="Cluster"
      className="picker"
      data={[{ value: "", label: clusters === undefined ? "Reading the clusters" : "Not attached" }, ...data]}
      value={cluster?.cluster_id ?? ""}
      onChange={(event) => attach(event.currentTarget.value)}
    />
  );
}

/** Why cells cannot run now, and what to do. */
export function AttachmentTrouble({ clusters, cluster, runs, refused }: Attachment) {
  const may = useRights(cluster);
  if (clusters === undefined || runs) return null;
  if (refused)
    return (
      <Text size="sm" role="alert" c="var(--mantine-color-error)">
        {refused}
      </Text>
    );
  if (cluster) return <Away cluster={cluster} may={may} />;
  return (
    <Text size="sm" c="dimmed" role="status">
      {clusters.length > 0
        ? "Choose a cluster to run cells."
        : "There is no cluster that you may attach to. Create one to run cells."}
    </Text>
  );
}
