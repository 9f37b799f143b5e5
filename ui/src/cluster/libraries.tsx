import { Alert, Button, Code, NativeSelect, Text, TextInput } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { POLL_MS } from "../api/live";
import type { components } from "../api/schema";
import { useActions } from "../clusters/actions";
import { active } from "../clusters/facts";
import { PathInput } from "../editor/pathinput";
import { confirm } from "../kit/confirm";
import { LineForm } from "../kit/forms";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { useKeptText } from "../lib/kept";
import { ENDS, HINTS, made, named, SOURCES, type Source, sourceOf } from "./librarykinds";
import type { TabProps } from "./tab";

type Status = components["schemas"]["LibraryFullStatus"];

const librariesQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "libraries"],
    queryFn: async () => {
      const asked = api.GET("/api/2.0/libraries/cluster-status", { params: { query: { cluster_id: id } } });
      return (await body(asked)).library_statuses ?? [];
    },
  });

const LOOKS: Record<string, string> = { INSTALLED: "good", RESTORED: "good", FAILED: "bad", SKIPPED: "off" };

export default function Libraries({ cluster, may, live }: TabProps) {
  const id = cluster.cluster_id;
  const asked = useQuery({ ...librariesQuery(id), refetchInterval: live ? false : POLL_MS });
  const { act, busy } = useActions();
  const found = asked.data;
  const leaving = (found ?? []).filter((each) => each.status === "UNINSTALL_ON_RESTART");
  if (found === undefined) return <Reading query={asked} what="Reading the libraries" rows={3} />;
  return (
    <>
      {may("CAN_MANAGE") && <Install id={id} />}
      {leaving.length > 0 && (
        <Alert color="yellow" variant="light" title="Restart required">
          <Text size="sm">
            {leaving.length === 1 ? "One library is" : `${leaving.length} libraries are`} removed when the cluster
            restarts.
          </Text>
          {cluster.state === "RUNNING" && may("CAN_RESTART") && (
            <Button mt="xs" variant="default" loading={busy.has(id)} onClick={() => void act("restart", [cluster])}>
              Restart
            </Button>
          )}
        </Alert>
      )}
      {found.length === 0 ? (
        <Text className="nothing">No libraries are installed on this cluster.</Text>
      ) : (
        <PlainTable heads={["Library", "Source", "Status"]} unseen="Actions">
          {found.map((each) => (
            <Row
              key={JSON.stringify(each.library)}
              id={id}
              each={each}
              runs={active(cluster)}
              may={may("CAN_MANAGE")}
            />
          ))}
        </PlainTable>
      )}
    </>
  );
}

function Row({ id, each, runs, may }: { id: string; each: Status; runs: boolean; may: boolean }) {
  const queries = useQueryClient();
  const [source, name, repo] = named(each.library);
  const leaving = useMutation({
    mutationFn: () =>
      body(api.POST("/api/2.0/libraries/uninstall", { body: { cluster_id: id, libraries: [each.library] } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["cluster", id, "libraries"] }),
    onError: (error) => toast(words(error), { failed: true }),
  });
  const uninstall = async () => {
    const consequence = runs
      ? "It stays installed until the cluster restarts."
      : "It will not be installed at the next start.";
    if (await confirm({ title: `Uninstall ${name}?`, consequence, action: "Uninstall" })) leaving.mutate();
  };
  return (
    <tr>
      <td data-label="Library" className="mono">
        {name}
        {repo && <span className="soft"> from {repo}</span>}
        {(each.messages ?? []).map((message) => (
          <Code key={message} block className="message">
            {message}
          </Code>
        ))}
      </td>
      <td data-label="Source">{source}</td>
      <td data-label="Status">
        <span className={`word ${LOOKS[each.status] ?? "wait"}`}>{each.status}</span>
      </td>
      <td className="end">
        {may && each.status !== "UNINSTALL_ON_RESTART" && (
          <Button
            variant="subtle"
            color="gray"
            loading={leaving.isPending}
            aria-label={`Uninstall ${name}`}
            onClick={() => void uninstall()}
          >
            Uninstall
          </Button>
        )}
      </td>
    </tr>
  );
}

/** A package's name and Enter are enough: the source follows from what is typed, unless one chooses it. */
function Install({ id }: { id: string }) {
  const queries = useQueryClient();
  const [chosen, setChosen] = useState<Source>();
  const [text, setText] = useKeptText(`library.${id}`);
  const [repo, setRepo] = useState("");
  const source = chosen ?? sourceOf(text);
  const withRepo = source === "PyPI" || source === "Maven" || source === "CRAN";
  const install = async () => {
    const libraries = [made(source, text.trim(), withRepo ? repo.trim() : "")];
    await body(api.POST("/api/2.0/libraries/install", { body: { cluster_id: id, libraries } }));
    setText("");
    setChosen(undefined);
    await queries.invalidateQueries({ queryKey: ["cluster", id, "libraries"] });
  };
  return (
    <LineForm label="Install a library" action="Install" ready={text.trim() !== ""} submit={install}>
      <PathInput
        className="wide"
        size="xs"
        label={withRepo ? "Package" : "File"}
        placeholder={chosen === undefined ? "requests==2.32.3, or /Volumes/..." : HINTS[source]}
        ends={ENDS[source]}
        value={text}
        change={setText}
      />
      <NativeSelect
        size="xs"
        label="Source"
        data={[...SOURCES]}
        value={source}
        onChange={(event) => setChosen(event.currentTarget.value as Source)}
      />
      {withRepo && (
        <TextInput
          label="Repository (optional)"
          placeholder="https://..."
          spellCheck={false}
          value={repo}
          onChange={(event) => setRepo(event.currentTarget.value)}
        />
      )}
    </LineForm>
  );
}
