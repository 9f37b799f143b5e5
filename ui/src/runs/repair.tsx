import { Button, Checkbox, Modal, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { DialogForm } from "../kit/forms";
import { Icon } from "../kit/icons";
import { PlainTable } from "../kit/plaintable";
import { toast } from "../kit/toasts";
import { exactly, lasting } from "../lib/time";
import { repairRun } from "./calls";
import { attemptsOf, isOver, type Run, stateOf } from "./words";

const GOOD = new Set(["SUCCESS", "EXCLUDED", "DISABLED"]);

/** The tasks of a run that a repair runs again, unless others are chosen: those that did not succeed. */
export const failedOf = (run: Run) =>
  attemptsOf(run.tasks ?? [])
    .map((attempts) => attempts.at(-1))
    .flatMap((task) => (task && !GOOD.has(task.state.result_state ?? "") ? [task.task_key] : []));

/** The button that repairs a run which did not succeed. */
export function Repair({ run }: { run: Run }) {
  const [open, setOpen] = useState(false);
  if (!isOver(run.state) || run.run_id !== run.job_run_id || failedOf(run).length === 0) return null;
  return (
    <>
      <Button leftSection={<Icon name="restart" size={14} />} onClick={() => setOpen(true)}>
        Repair
      </Button>
      {open && <RepairDialog run={run} close={() => setOpen(false)} />}
    </>
  );
}

/** Asks which tasks to run again, and with which parameters. */
function RepairDialog({ run, close }: { run: Run; close: () => void }) {
  const queries = useQueryClient();
  const keys = attemptsOf(run.tasks ?? []).map((attempts) => attempts[0]?.task_key ?? "");
  const [chosen, setChosen] = useState(() => new Set(failedOf(run)));
  const [dependents, setDependents] = useState(true);
  const given = run.job_parameters ?? [];
  const [values, setValues] = useState(() => new Map(given.map((each) => [each.name, each.value ?? ""])));
  const latest = run.repair_history?.at(-1)?.id;
  const submit = async () => {
    await repairRun({
      run_id: run.run_id,
      rerun_tasks: [...chosen],
      rerun_dependent_tasks: dependents,
      ...(latest ? { latest_repair_id: latest } : {}),
      ...(given.length > 0 && { job_parameters: Object.fromEntries(values) }),
    });
    toast("The run is being repaired.");
    void queries.invalidateQueries({ queryKey: ["run"] });
    void queries.invalidateQueries({ queryKey: ["runs"] });
    close();
  };
  return (
    <Modal opened onClose={close} title="Repair the run" centered>
      <DialogForm action="Repair" submit={submit} close={close}>
        <Text size="sm">
          The chosen tasks run again with the job's current settings. The others keep their results.
        </Text>
        <fieldset className="map" aria-label="Tasks to run again">
          {keys.map((key) => (
            <Checkbox
              key={key}
              label={key}
              checked={chosen.has(key)}
              onChange={(event) => {
                const next = new Set(chosen);
                if (event.currentTarget.checked) next.add(key);
                else next.delete(key);
                setChosen(next);
              }}
            />
          ))}
        </fieldset>
        <Checkbox
          label="Also run the tasks that depend on them"
          checked={dependents}
          onChange={(event) => setDependents(event.currentTarget.checked)}
        />
        {given.map((each) => (
          <TextInput
            key={each.name}
            label={each.name}
            spellCheck={false}
            value={values.get(each.name) ?? ""}
            onChange={(event) => {
              const value = event.currentTarget.value;
              setValues((now) => new Map(now).set(each.name, value));
            }}
          />
        ))}
      </DialogForm>
    </Modal>
  );
}

/** The run as it was made, and its repairs. Nothing for a run that was not repaired. */
export function RepairHistory({ run }: { run: Run }) {
  const items = run.repair_history ?? [];
  if (items.length < 2) return null;
  const keyOf = new Map((run.tasks ?? []).map((task) => [task.run_id, task.task_key]));
  return (
    <section aria-label="Repairs">
      <PlainTable heads={["Repair", "State", "Started", "Took", "Tasks"]}>
        {items.map((item, at) => {
          const { word, look } = item.state ? stateOf(item.state) : { word: "", look: "off" };
          const tasks = [...new Set(item.task_run_ids.flatMap((id) => keyOf.get(id) ?? []))];
          return (
            <tr key={item.id ?? 0}>
              <td data-label="Repair">{at === 0 ? "Original run" : `Repair ${at}`}</td>
              <td data-label="State">
                <span className={`word ${look}`}>{word}</span>
              </td>
              <td data-label="Started">{item.start_time ? exactly(item.start_time) : "-"}</td>
              <td data-label="Took">
                {item.start_time && item.end_time ? lasting(item.end_time - item.start_time) : "-"}
              </td>
              <td data-label="Tasks">{tasks.join(", ")}</td>
            </tr>
          );
        })}
      </PlainTable>
    </section>
  );
}
