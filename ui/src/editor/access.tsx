import { Radio } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { principalsQuery } from "../access/principalinput";
import { Label, Locked, TextField, useField } from "./fields";
import { write } from "./spec";
import { SETTLE_MS, useEditor } from "./state";

const MODES = [
  {
    mode: "SINGLE_USER",
    label: "Dedicated",
    help: "Only one user can run code.",
    also: ["DATA_SECURITY_MODE_DEDICATED", "LEGACY_SINGLE_USER", "LEGACY_SINGLE_USER_STANDARD"],
  },
  {
    mode: "USER_ISOLATION",
    label: "Standard",
    help: "Several users, isolated from each other.",
    also: ["DATA_SECURITY_MODE_STANDARD"],
  },
  { mode: "NONE", label: "No isolation shared", help: "Everyone who can attach shares one session.", also: [] },
] as const;

export function AccessField() {
  const path = ["data_security_mode"];
  const editor = useEditor();
  const field = useField(path);
  const value = String(field.value ?? "");
  const known = MODES.find((each) => each.mode === value || (each.also as readonly string[]).includes(value));
  if (field.hidden) return null;
  const choose = (mode: string) =>
    editor.change((now) => {
      const next = write(now, path, mode);
      return mode === "SINGLE_USER" ? next : write(next, ["single_user_name"], undefined); // only that mode may name one
    });
  return (
    <>
      {field.lock !== undefined ? (
        <Locked path={path} label="Access mode" />
      ) : (
        <Radio.Group
          id={field.id}
          label={
            <Label path={path} restart={field.restart}>
              Access mode
            </Label>
          }
          description={field.hint}
          error={field.error}
          value={known?.mode ?? (value || "NONE")}
          onChange={choose}
        >
          <div className="choices">
            {MODES.map((each) => (
              <Radio key={each.mode} value={each.mode} label={each.label} description={each.help} />
            ))}
            {known === undefined && value !== "" && <Radio value={value} label={value} />}
          </div>
        </Radio.Group>
      )}
      {(known?.mode === "SINGLE_USER" || field.lock?.value === "SINGLE_USER" || editor.draft.single_user_name) && (
        <UserField />
      )}
    </>
  );
}

function UserField() {
  const path = ["single_user_name"];
  const typed = String(useField(path).value ?? "");
  const [text] = useDebouncedValue(typed, SETTLE_MS);
  const users = useQuery(principalsQuery(text, "user_name")).data ?? [];
  return (
    <TextField
      path={path}
      label="User"
      help="Only this user can run code on the cluster."
      options={users.map((each) => each.name)}
    />
  );
}
