import { Alert, Button, Select, Switch, Text } from "@mantine/core";
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { api, body, words } from "../api/client";
import { POLL_MS } from "../api/live";
import { Icon } from "../kit/icons";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { Waiting } from "../kit/waiting";
import { download } from "../lib/files";
import { useKept } from "../lib/kept";
import { bytes } from "../lib/sizes";
import { firstLog, type Log } from "./firstlog";
import { LogFeed } from "./logfeed";
import { LogLines } from "./loglines";
import type { TabProps } from "./tab";

const logsQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "logs"],
    queryFn: () => body(api.GET("/api/2.1/clusters/logs/list", { params: { query: { cluster_id: id } } })),
  });

export default function Logs({ cluster, live, search, change }: TabProps) {
  const id = cluster.cluster_id;
  const asked = useQuery({ ...logsQuery(id), refetchInterval: live ? 30_000 : POLL_MS });
  const files = asked.data?.files ?? [];
  const chosen =
    files.find((each) => each.file === search.file) ??
    (search.file ? undefined : firstLog(files, search.node, cluster.termination_reason?.code));
  if (asked.data === undefined) return <Reading query={asked} what="Reading the list of logs" rows={3} />;
  const nodes = [...new Set(files.map((each) => each.node))];
  const groups = nodes.map((node) => {
    const ofNode = files.filter((each) => each.node === node);
    const role = ofNode[0]?.role || "node";
    return {
      group: `${role} ${node}${ofNode[0]?.running ? "" : " (ended)"}`,
      items: ofNode.map((each) => ({ value: each.file, label: `${each.path} (${bytes(each.size)})` })),
    };
  });
  return (
    <>
      {asked.data.unreachable.map((each) => (
        <Alert key={each.node} color="yellow" variant="light" title={`${each.node} does not answer`}>
          {each.message}
        </Alert>
      ))}
      {files.length === 0 ? (
        <Text className="nothing">{cluster.start_time ? "No logs." : "This cluster has not been started yet."}</Text>
      ) : (
        <>
          <Select
            size="xs"
            className="file"
            label="Log"
            data={groups}
            value={chosen?.file ?? null}
            allowDeselect={false}
            searchable
            onChange={(file) => change({ file: file ?? undefined })}
          />
          {chosen === undefined ? (
            <Text className="nothing">This log no longer exists. Choose another one.</Text>
          ) : (
            <OneLog
              key={`${chosen.file} ${search.node ?? ""}`}
              id={id}
              log={chosen}
              find={search.find ?? ""}
              change={change}
            />
          )}
        </>
      )}
    </>
  );
}

function useFeed(id: string, file: string): LogFeed | null {
  const [feed, setFeed] = useState<LogFeed | null>(null);
  useEffect(() => {
    const opened = new LogFeed(id, file);
    setFeed(opened);
    void opened.open();
    return () => opened.close();
  }, [id, file]);
  return feed;
}

interface OneProps {
  id: string;
  log: Log;
  find: string;
  change: TabProps["change"];
}

function OneLog(props: OneProps) {
  const feed = useFeed(props.id, props.log.file);
  return feed === null ? null : <Shown {...props} feed={feed} />;
}

const SAYS = {
  reading: "Reading",
  following: "Live",
  ended: "Node terminated",
  lost: "Interrupted",
};

function Shown({ log, find, change, feed }: OneProps & { feed: LogFeed }) {
  const view = useSyncExternalStore(feed.subscribe, feed.get);
  const [wrap, setWrap] = useKept("wrap", false);
  const save = useMutation({
    mutationFn: async () => download(log.file.replaceAll("/", "-"), await feed.whole()),
    onError: (error) => toast(words(error), { failed: true }),
  });
  if (view.state === "reading") return <Waiting what="Reading the log" />;
  return (
    <LogLines
      lines={view.lines}
      complete={view.start === 0}
      wrap={wrap}
      find={find}
      onFind={(text) => change({ find: text || undefined })}
      earlier={view.start > 0 ? () => feed.earlier() : undefined}
      before={view.start}
    >
      <span className={`word ${{ following: "good", ended: "off", lost: "bad", reading: "wait" }[view.state]}`}>
        {SAYS[view.state]}
      </span>
      {view.error && (
        <Text size="sm" role="status">
          {view.error}
        </Text>
      )}
      <Switch size="xs" label="Wrap lines" checked={wrap} onChange={(event) => setWrap(event.currentTarget.checked)} />
      <Button
        variant="default"
        loading={save.isPending}
        leftSection={<Icon name="download" size={14} />}
        onClick={() => save.mutate()}
      >
        Download
      </Button>
    </LogLines>
  );
}
