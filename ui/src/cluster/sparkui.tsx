import { Anchor, Group, Loader, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ApiError, api, body, LostConnection } from "../api/client";
import { remote } from "../api/session";
import { Reading } from "../kit/reading";
import { Trouble } from "../kit/trouble";
import type { TabProps } from "./tab";

/** The link holds a pass for this cluster's UI alone. */
async function link(id: string): Promise<string> {
  const { url } = await body(api.GET("/api/2.1/clusters/spark-ui-link", { params: { query: { cluster_id: id } } }));
  return url;
}

/** Waits until the cluster's UI answers: a history server takes a few seconds to start. */
async function openUi(id: string): Promise<string> {
  const path = new URL(await link(id)).pathname; // on this page's own address, however the server calls itself
  const answer = await fetch(path, { headers: { Accept: "application/json" }, credentials: "omit" }).catch(() => {
    throw new LostConnection();
  });
  if (answer.ok) return path;
  const said = (await answer.json().catch(() => ({}))) as { error_code?: string; message?: string };
  throw new ApiError(
    answer.status,
    said.error_code ?? String(answer.status),
    said.message ?? `The Spark UI answered with status ${answer.status}.`,
    answer.headers.get("x-request-id") ?? "",
  );
}

export default function SparkUi(props: TabProps) {
  return remote() === "" ? <Framed {...props} /> : <Elsewhere {...props} />;
}

/** It is a page of the workspace's server, which this page does not stand in for. */
function Elsewhere({ cluster }: TabProps) {
  const id = cluster.cluster_id;
  const asked = useQuery({ queryKey: ["spark-ui", id, "elsewhere"], queryFn: () => link(id), retry: false });
  if (asked.data === undefined) return <Reading query={asked} what="Asking for the Spark UI's address" />;
  return (
    <Anchor href={asked.data} target="_blank" rel="noopener noreferrer">
      Open the Spark UI at {new URL(asked.data).host}
    </Anchor>
  );
}

function Framed({ cluster }: TabProps) {
  const id = cluster.cluster_id;
  const runs = cluster.state === "RUNNING" || cluster.state === "RESIZING";
  const asked = useQuery({
    queryKey: ["spark-ui", id, cluster.spark_context_id, runs],
    queryFn: () => openUi(id),
    staleTime: 6 * 3_600_000, // half of what a link lives
    retry: false,
  });
  if (asked.data === undefined)
    return asked.isError ? (
      <Trouble error={asked.error} retry={() => void asked.refetch()} missing="No Spark UI available" />
    ) : (
      <Group gap="xs" role="status">
        <Loader size="xs" />
        <Text>{runs ? "Opening the Spark UI" : "Starting a history server for the cluster's event logs"}</Text>
      </Group>
    );
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Text size="sm" c="dimmed">
          {runs ? "Live Spark UI of the driver." : "Spark history of the last run, from the cluster's event logs."}
        </Text>
        <Anchor size="sm" href={`/spark-ui/${encodeURIComponent(id)}/`} target="_blank" rel="noopener">
          Open in a new tab
        </Anchor>
      </Group>
      {/* Code of the cluster can put scripts into these pages: they get an origin of their own, which is nobody on the API. */}
      <iframe
        className="sparkui"
        title="Spark UI"
        src={asked.data}
        sandbox="allow-scripts allow-forms allow-popups allow-downloads"
        referrerPolicy="no-referrer"
      />
    </>
  );
}
