import { Modal, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { mapOf, type Pair } from "../editor/pairing";
import { Pairs } from "../editor/pairs";
import { DialogForm } from "../kit/forms";
import { toast } from "../kit/toasts";
import { runNow } from "./calls";
import { type Job, nameOf } from "./words";

/** Asks for the parameters of a run and starts it. A job that declares none takes any. */
export function RunNowDialog({ job, close }: { job: Job; close: () => void }) {
  const queries = useQueryClient();
  const declared = job.settings.parameters ?? [];
  const [values, setValues] = useState(() => new Map(declared.map((each) => [each.name, each.default])));
  const [pairs, setPairs] = useState<Pair[]>([]);
  const submit = async () => {
    await runNow(job.job_id, declared.length > 0 ? Object.fromEntries(values) : mapOf(pairs));
    toast(`A run of ${nameOf(job)} was started.`);
    void queries.invalidateQueries({ queryKey: ["job", job.job_id] });
    close();
  };
  return (
    <Modal opened onClose={close} title={`Run ${nameOf(job)} now`} centered>
      <DialogForm action="Run now" submit={submit} close={close}>
        {declared.length === 0 && (
          <>
            <Text size="sm">The job declares no parameters. Values given here are for this run.</Text>
            <fieldset className="map" aria-label="Parameters">
              <Pairs
                pairs={pairs}
                change={setPairs}
                keyLabel="Parameter"
                valueLabel="Value"
                add="Add a parameter"
                help="A task reads one as {{job.parameters.NAME}}."
              />
            </fieldset>
          </>
        )}
        {declared.map((each, at) => (
          <TextInput
            key={each.name}
            label={each.name}
            description={`Default: ${each.default || '""'}`}
            data-autofocus={at === 0 || undefined}
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
