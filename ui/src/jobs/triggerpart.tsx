import { Autocomplete, Checkbox, NativeSelect, NumberInput, Textarea, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { Part } from "../editor/frame";
import { type Draft, zones } from "./draft";
import { inWords } from "./quartz";

const WHEN = [
  { value: "none", label: "None" },
  { value: "cron", label: "Quartz expression" },
  { value: "periodic", label: "Every few hours, days or weeks" },
  { value: "files", label: "File arrival" },
  { value: "tables", label: "Table update" },
  { value: "continuous", label: "Continuous" },
];
const UNITS = [
  { value: "HOURS", label: "Hours" },
  { value: "DAYS", label: "Days" },
  { value: "WEEKS", label: "Weeks" },
];

type Form = UseFormReturnType<Draft>;

/** What begins the job's runs. */
export function TriggerPart({ form }: { form: Form }) {
  const draft = form.values;
  return (
    <Part title="Schedule">
      <NativeSelect size="xs" label="Schedule" w={280} maw="100%" data={WHEN} {...form.getInputProps("when")} />
      {draft.when === "cron" && (
        <>
          <TextInput
            label="Quartz expression"
            description={inWords(draft.cron) ?? "Second, minute, hour, day of month, month, day of week."}
            spellCheck={false}
            {...form.getInputProps("cron")}
          />
          <Autocomplete
            label="Time zone"
            w={280}
            maw="100%"
            data={zones()}
            limit={50}
            {...form.getInputProps("zone")}
          />
        </>
      )}
      {draft.when === "periodic" && (
        <div className="beside">
          <Amount form={form} field="interval" label="Every" />
          <NativeSelect size="xs" label="Unit" data={UNITS} {...form.getInputProps("unit")} />
        </div>
      )}
      {draft.when === "files" && (
        <TextInput
          label="Directory"
          description="A run begins when there are new files below it. What is there already does not count."
          placeholder="/Volumes/main/default/inbox/"
          spellCheck={false}
          {...form.getInputProps("url")}
        />
      )}
      {draft.when === "tables" && (
        <>
          <Textarea
            label="Delta tables"
            description="A run begins when they have new versions."
            placeholder="main.default.orders"
            autosize
            minRows={1}
            maxRows={10}
            spellCheck={false}
            {...form.getInputProps("tables")}
          />
          <Checkbox label="Wait for all of them" {...form.getInputProps("all", { type: "checkbox" })} />
        </>
      )}
      {(draft.when === "files" || draft.when === "tables") && (
        <div className="beside">
          <Amount form={form} field="between" label="Seconds between runs" />
          <Amount form={form} field="quiet" label="Seconds after the last change" />
        </div>
      )}
      {draft.when === "continuous" && (
        <p className="help">One run is always active. After failures, the next one begins after a growing pause.</p>
      )}
      {draft.when !== "none" && <Checkbox label="Paused" {...form.getInputProps("paused", { type: "checkbox" })} />}
    </Part>
  );
}

/** A whole number, or nothing. */
export function Amount({
  form,
  field,
  label,
}: {
  form: Form;
  field: "interval" | "between" | "quiet" | "warnAfter";
  label: string;
}) {
  return (
    <NumberInput
      label={label}
      w={field === "interval" ? 120 : 220}
      clampBehavior="none"
      allowDecimal={false}
      value={form.values[field] ?? ""}
      error={form.errors[field]}
      onChange={(next) => form.setFieldValue(field, typeof next === "number" ? next : undefined)}
    />
  );
}
