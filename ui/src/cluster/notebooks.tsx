import { Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { POLL_MS } from "../api/live";
import { offered } from "../api/session";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { ago, exactly, useNow } from "../lib/time";
import { Console } from "./console/console";
import type { TabProps } from "./tab";

export default function Notebooks({ cluster, may }: TabProps) {
  const runs = cluster.state === "RUNNING" || cluster.state === "RESIZING";
  return (
    <>
      <Console cluster={cluster} may={may} />
      {offered("/api/2.1/clusters/list-attached") && (
        <section aria-label="Attached">
          <Title order={2} size="h6">
            Attached
          </Title>
          {runs ? (
            <Attached id={cluster.cluster_id} />
          ) : (
            <Text c="dimmed">Nothing is attached, because the cluster is not running.</Text>
          )}
        </section>
      )}
    </>
  );
}

/** Execution contexts, as notebooks have them, and Spark Connect sessions. The server keeps no record of them: the page asks. */
function Attached({ id }: { id: string }) {
  const asked = useQuery({
    queryKey: ["cluster", id, "attached"],
    queryFn: () => body(api.GET("/api/2.1/clusters/list-attached", { params: { query: { cluster_id: id } } })),
    refetchInterval: POLL_MS,
  });
  const now = useNow(POLL_MS);
  if (asked.data === undefined) return <Reading query={asked} what="Reading who is attached" rows={2} />;
  const { contexts = [], connect_sessions: sessions = [] } = asked.data;
  if (contexts.length + sessions.length === 0) return <Text c="dimmed">Nothing is attached to this cluster.</Text>;
  const rows = [
    ...contexts.map((each) => ({
      key: each.context_id,
      kind: `Context, ${each.language || "any language"}`,
      user: each.user ?? "",
      state: each.commands ? `${each.status}, ${each.commands} queued or running` : (each.status ?? ""),
      used: each.last_used_ms ?? 0,
    })),
    ...sessions.map((each) => ({
      key: each.session_id,
      kind: `Spark Connect${each.client_type ? `, ${each.client_type}` : ""}`,
      user: each.user_name || each.user || "",
      state: "",
      used: each.last_used_ms ?? 0,
    })),
  ];
  return (
    <PlainTable heads={["User", "What", "State", "Last used", "Id"]}>
      {rows.map((each) => (
        <tr key={each.key}>
          <td data-label="User">{each.user}</td>
          <td data-label="What">{each.kind}</td>
          <td data-label="State">{each.state}</td>
          <td data-label="Last used">
            {each.used > 0 && <time title={exactly(each.used)}>{ago(each.used, now)}</time>}
          </td>
          <td data-label="Id" className="mono soft">
            {each.key}
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}
