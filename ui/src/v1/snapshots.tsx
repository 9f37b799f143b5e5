import { Button, Text, TextInput } from "@mantine/core";
import { infiniteQueryOptions, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { confirm } from "../kit/confirm";
import { CopyIcon } from "../kit/copy";
import { LineForm } from "../kit/forms";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { bytes } from "../lib/sizes";
import { exactly } from "../lib/time";
import { limitsQuery, startWith } from "./calls";
import type { Snapshot } from "./words";

const PATH = "/v1/clusters/{cluster_id}/snapshots";
const PAGE = 50;
const POLL_MS = 3000; // while one is taken
const LOOKS = { available: "good", creating: "wait", failed: "bad" } as const;

const snapshotsQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ["cluster", id, "snapshots"],
    initialPageParam: 1,
    queryFn: async ({ pageParam }) => {
      const params = { path: { cluster_id: id }, query: { page: pageParam, limit: PAGE } };
      return (await body(api.GET(PATH, { params }))).data.snapshots;
    },
    getNextPageParam: (last, pages) => (last.length === PAGE ? pages.length + 1 : undefined),
    refetchInterval: (query) =>
      query.state.data?.pages.flat().some((each) => each.status === "creating") ? POLL_MS : false,
  });

const nameOf = (each: Snapshot) => each.name || each.id;

/** Snapshots of the cluster's workspace directory: taken, restored and deleted. */
export function Snapshots({ id }: { id: string }) {
  const asked = useInfiniteQuery(snapshotsQuery(id));
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const again = () => queries.invalidateQueries({ queryKey: snapshotsQuery(id).queryKey });
  const removing = useMutation({
    mutationFn: (each: Snapshot) =>
      body(api.DELETE("/v1/snapshots/{snapshot_id}", { params: { path: { snapshot_id: each.id } } })),
    onSuccess: again,
    onError: (error) => toast(words(error), { failed: true }),
  });
  const stopped = useQuery(limitsQuery(id)).data?.stopped;
  const restoring = useMutation({
    mutationFn: (each: Snapshot) => startWith(id, stopped === true, { restore_from_snapshot: each.id }),
    onSuccess: async (_, each) => {
      toast(`The cluster is ${stopped ? "starting" : "restarting"} with the files of ${nameOf(each)}.`);
      await queries.invalidateQueries({ queryKey: ["cluster", id] });
    },
    onError: (error) => toast(words(error), { failed: true }),
  });
  const restore = async (each: Snapshot) => {
    const ends = stopped ? "" : " What runs on the cluster ends.";
    const consequence = `The cluster ${stopped ? "starts" : "restarts"} with the files of this snapshot. What was changed in /workspace since then is lost, unless another snapshot has it.${ends}`;
    const action = stopped ? "Restore and start" : "Restore and restart";
    if (await confirm({ title: `Restore ${nameOf(each)}?`, consequence, action })) restoring.mutate(each);
  };
  const take = async () => {
    const given = name.trim() ? { name: name.trim() } : {};
    await body(api.POST(PATH, { params: { path: { cluster_id: id } }, body: given as never }));
    setName("");
    await again();
  };
  const remove = async (each: Snapshot) => {
    const consequence = "The files in it are lost, where no other snapshot has them.";
    if (await confirm({ title: `Delete ${nameOf(each)}?`, consequence, action: "Delete" })) removing.mutate(each);
  };
  const shown = asked.data?.pages.flat();
  return (
    <>
      <Text size="sm" c="dimmed">
        Copies of the files in /workspace of this cluster. They stay when the cluster stops or is deleted.
      </Text>
      <LineForm label="Take a snapshot" action="Take a snapshot" ready submit={take}>
        <TextInput
          label="Name"
          placeholder="epoch 12"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </LineForm>
      {shown === undefined ? (
        <Reading query={asked} what="Reading the snapshots" rows={3} />
      ) : shown.length === 0 ? (
        <Text className="nothing">No snapshots yet.</Text>
      ) : (
        <PlainTable heads={["Snapshot", "State", "Size", "Created"]} unseen="Actions">
          {shown.map((each) => (
            <tr key={each.id}>
              <td data-label="Snapshot">
                <span>
                  <b>{each.name || "No name"}</b>
                  <span className="under mono">
                    {each.id} <CopyIcon text={each.id} what="Copy the id" />
                  </span>
                </span>
              </td>
              <td data-label="State">
                <span>
                  <span className={`word ${LOOKS[each.status]}`}>{each.status}</span>
                  {each.reason && <span className="under said">{each.reason}</span>}
                </span>
              </td>
              <td data-label="Size">
                <span>
                  {bytes(each.size_bytes)}
                  <span className="under">{each.files.toLocaleString()} files</span>
                </span>
              </td>
              <td data-label="Created">
                <span>
                  {exactly(Date.parse(each.created_at))}
                  <span className="under">{each.created_by}</span>
                </span>
              </td>
              <td className="end">
                {each.status === "available" && (
                  <Button
                    variant="subtle"
                    color="gray"
                    disabled={stopped === undefined || restoring.isPending}
                    loading={restoring.isPending && restoring.variables?.id === each.id}
                    aria-label={`Restore ${nameOf(each)}`}
                    onClick={() => void restore(each)}
                  >
                    Restore
                  </Button>
                )}
                <Button
                  variant="subtle"
                  color="gray"
                  loading={removing.isPending && removing.variables?.id === each.id}
                  aria-label={`Delete ${nameOf(each)}`}
                  onClick={() => void remove(each)}
                >
                  Delete
                </Button>
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
      {asked.hasNextPage && (
        <More what="Older snapshots" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
    </>
  );
}
