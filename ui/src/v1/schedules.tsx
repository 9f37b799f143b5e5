import { Autocomplete, Button, Group, Modal, NativeSelect, Text, TextInput } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { confirm } from "../kit/confirm";
import { DialogForm } from "../kit/forms";
import { Icon } from "../kit/icons";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { exactly } from "../lib/time";
import { CRONS, type Schedule } from "./words";

const PATH = "/v1/clusters/{cluster_id}/schedules";
const ONE = "/v1/clusters/{cluster_id}/schedules/{schedule_id}";

const schedulesQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "schedules"],
    queryFn: async () => (await body(api.GET(PATH, { params: { path: { cluster_id: id } } }))).data.schedules,
  });

/** When a cluster is started and stopped by itself. */
export function Schedules({ id }: { id: string }) {
  const asked = useQuery(schedulesQuery(id));
  const queries = useQueryClient();
  const [creating, setCreating] = useState(false);
  const again = () => queries.invalidateQueries({ queryKey: schedulesQuery(id).queryKey });
  const mutation = { onSuccess: again, onError: (error: unknown) => toast(words(error), { failed: true }) };
  const path = (each: Schedule) => ({ cluster_id: id, schedule_id: each.id });
  const pausing = useMutation({
    mutationFn: (each: Schedule) =>
      body(api.PATCH(ONE, { params: { path: path(each) }, body: { paused: !each.paused } as never })),
    ...mutation,
  });
  const removing = useMutation({
    mutationFn: (each: Schedule) => body(api.DELETE(ONE, { params: { path: path(each) } })),
    ...mutation,
  });
  const remove = async (each: Schedule) => {
    const title = `Delete the schedule ${each.cron}?`;
    const consequence = `The cluster is no longer ${each.action === "start" ? "started" : "stopped"} at these times.`;
    if (await confirm({ title, consequence, action: "Delete" })) removing.mutate(each);
  };
  if (asked.data === undefined) return <Reading query={asked} what="Reading the schedules" rows={3} />;
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Text size="sm" c="dimmed">
          A schedule runs with the permissions of its owner.
        </Text>
        <Button leftSection={<Icon name="plus" size={14} />} onClick={() => setCreating(true)}>
          Add a schedule
        </Button>
      </Group>
      {asked.data.length === 0 ? (
        <Text className="nothing">No schedules yet. A schedule starts or stops this cluster at certain times.</Text>
      ) : (
        <PlainTable heads={["Action", "When", "Next run", "Last run", "Owner"]} unseen="Actions">
          {asked.data.map((each) => (
            <tr key={each.id} data-off={each.paused || undefined}>
              <td data-label="Action">{each.action === "start" ? "Start" : "Stop"}</td>
              <td data-label="When">
                <span>
                  <span className="mono">{each.cron}</span>
                  <span className="under">{each.timezone}</span>
                </span>
              </td>
              <td data-label="Next run">
                {each.paused ? "Paused" : each.next_run_at ? exactly(Date.parse(each.next_run_at)) : "-"}
              </td>
              <td data-label="Last run">{each.last_run ? <Last run={each.last_run} /> : "-"}</td>
              <td data-label="Owner">{each.owner}</td>
              <td className="end">
                <Button
                  variant="subtle"
                  color="gray"
                  loading={pausing.isPending && pausing.variables?.id === each.id}
                  aria-label={`${each.paused ? "Resume" : "Pause"} the schedule ${each.cron}`}
                  onClick={() => pausing.mutate(each)}
                >
                  {each.paused ? "Resume" : "Pause"}
                </Button>
                <Button
                  variant="subtle"
                  color="gray"
                  aria-label={`Delete the schedule ${each.cron}`}
                  onClick={() => void remove(each)}
                >
                  Delete
                </Button>
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
      {creating && <Create id={id} close={() => setCreating(false)} done={again} />}
    </>
  );
}

function Last({ run }: { run: NonNullable<Schedule["last_run"]> }) {
  const bad = run.result === "failed";
  return (
    <span>
      <span className={bad ? "word bad" : undefined}>{run.result.replaceAll("_", " ")}</span>
      <span className="under">{run.reason || exactly(Date.parse(run.at))}</span>
    </span>
  );
}

function Create({ id, close, done }: { id: string; close: () => void; done: () => Promise<unknown> }) {
  const [action, setAction] = useState<Schedule["action"]>("start");
  const [cron, setCron] = useState(CRONS[0]?.value ?? "");
  const [timezone, setTimezone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [missed, setMissed] = useState<Schedule["missed"]>("run");
  const create = async () => {
    const given = { action, cron: cron.trim(), timezone, missed };
    await body(api.POST(PATH, { params: { path: { cluster_id: id } }, body: given as never }));
    await done();
    close();
  };
  return (
    <Modal opened onClose={close} title="Add a schedule" centered>
      <DialogForm action="Add" submit={create} close={close}>
        <NativeSelect
          size="xs"
          label="Action"
          data={[
            { value: "start", label: "Start the cluster" },
            { value: "stop", label: "Stop the cluster" },
          ]}
          value={action}
          onChange={(event) => setAction(event.currentTarget.value as Schedule["action"])}
        />
        <Autocomplete
          size="xs"
          label="When"
          description="Minute, hour, day of month, month, day of week. Every 5 minutes at most."
          required
          data-autofocus
          data={CRONS.map((each) => each.value)}
          filter={({ options }) => options}
          renderOption={({ option }) => (
            <span>
              {CRONS.find((each) => each.value === option.value)?.label} <code>{option.value}</code>
            </span>
          )}
          value={cron}
          onChange={setCron}
        />
        <TextInput
          label="Time zone"
          required
          spellCheck={false}
          value={timezone}
          onChange={(event) => setTimezone(event.currentTarget.value)}
        />
        <NativeSelect
          size="xs"
          label="A run that was missed"
          data={[
            { value: "run", label: "Run late, once" },
            { value: "skip", label: "Skip" },
          ]}
          value={missed}
          onChange={(event) => setMissed(event.currentTarget.value as Schedule["missed"])}
        />
      </DialogForm>
    </Modal>
  );
}
