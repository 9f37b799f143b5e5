import { Button, Group, Modal, NumberInput, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { DialogForm } from "../kit/forms";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { lasting } from "../lib/time";
import { limitsQuery, startWith } from "./calls";
import { type Limits, limitsOf, updatesOf } from "./words";

const FIELDS = [
  { name: "idle_minutes", label: "Minutes without use", least: 10, most: 10_000 },
  { name: "max_runtime_minutes", label: "Minutes since the start", least: 1, most: undefined },
  { name: "max_cost", label: "Cost since the start", least: 0, most: undefined },
] as const;

/** What stops a cluster by itself. */
export function LimitsTab({ id }: { id: string }) {
  const asked = useQuery(limitsQuery(id));
  const [starting, setStarting] = useState(false);
  if (asked.data === undefined) return <Reading query={asked} what="Reading the limits" rows={4} />;
  const { limits, stopped } = asked.data;
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Text size="sm" c="dimmed">
          The first limit that is reached stops the cluster. Limits change when it is started
          {!stopped && " or restarted"}.
        </Text>
        <Button variant="default" onClick={() => setStarting(true)}>
          {stopped ? "Start with other limits" : "Restart with other limits"}
        </Button>
      </Group>
      <PlainTable heads={["Limit", "Value", "Time left"]}>
        {limitsOf(limits).map((each) => (
          <tr key={each.name}>
            <td data-label="Limit">{each.label}</td>
            <td data-label="Value">{each.value || <span className="soft">none</span>}</td>
            <td data-label="Time left">
              {each.remaining === undefined ? "-" : `at least ${lasting(each.remaining * 1000)}`}
            </td>
          </tr>
        ))}
      </PlainTable>
      {starting && <Start id={id} limits={limits} stopped={stopped} close={() => setStarting(false)} />}
    </>
  );
}

function Start({ id, limits, stopped, close }: { id: string; limits: Limits; stopped: boolean; close: () => void }) {
  const queries = useQueryClient();
  const [given, setGiven] = useState<Record<string, number | string>>(
    Object.fromEntries(FIELDS.map(({ name }) => [name, limits[name] ?? ""])),
  );
  const start = async () => {
    await startWith(id, stopped, { auto_terminate_updates: updatesOf(given, limits) });
    await queries.invalidateQueries({ queryKey: ["cluster", id] });
    close();
  };
  return (
    <Modal opened onClose={close} title={stopped ? "Start with other limits" : "Restart with other limits"} centered>
      <DialogForm action={stopped ? "Start" : "Restart"} submit={start} close={close}>
        {!stopped && <Text size="sm">A restart ends what runs on the cluster.</Text>}
        {FIELDS.map(({ name, label, least, most }) => (
          <NumberInput
            key={name}
            size="xs"
            label={label}
            placeholder="none"
            min={least}
            max={most}
            hideControls
            value={given[name]}
            onChange={(value) => setGiven((old) => ({ ...old, [name]: value }))}
          />
        ))}
      </DialogForm>
    </Modal>
  );
}
