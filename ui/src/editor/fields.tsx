import { ActionIcon, Autocomplete, Badge, Checkbox, NumberInput, Select, TextInput, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { Icon } from "../kit/icons";
import { checks } from "./calls";
import { hint } from "./policy";
import { isMap, type Path, read, same, shown } from "./spec";
import { type Editor, effectiveAt, errorsAt, useEditor } from "./state";

export const idOf = (path: Path) => `field-${path.join("-").replace(/[^\w-]/g, "_")}`;

const SIZE = new Set(["num_workers", "autoscale", "is_single_node"]);

/** Whether saving restarts the cluster because of this field, as the server says. A size alone is changed while the cluster runs. */
export function restarts(editor: Editor, path: Path): boolean {
  if (editor.state !== "RUNNING" || same(read(editor.draft, path), read(editor.base, path))) return false;
  return !SIZE.has(String(path[0])) && restartFields(editor).includes(String(path[0]));
}

/** The fields because of which saving restarts the cluster. A workspace that cannot say so restarts it because of any. */
export const restartFields = (editor: Editor): string[] =>
  checks() ? (editor.verdict?.restart_fields ?? []) : Object.keys({ ...editor.base, ...editor.draft });

export function useField(path: Path) {
  const editor = useEditor();
  const name = path.join(".");
  const lock = editor.lock(path);
  const found = errorsAt(editor.errors, name);
  const value = read(editor.draft, path);
  return {
    id: idOf(path),
    value,
    set: (next: unknown) => editor.set(path, next),
    lock,
    hidden: (lock?.hidden ?? false) && found.length === 0,
    error: found.length > 0 ? found.map((each) => each.message).join("\n") : undefined,
    effective: effectiveAt(editor, path),
    restart: restarts(editor, path),
    hint: hint(editor.rules.get(name)),
    rule: editor.rules.get(name),
  };
}

export function Label({ path, children, restart }: { path: Path; children: ReactNode; restart?: boolean }) {
  return (
    <>
      <Tooltip label={<code>{path.join(".")}</code>} position="top-start">
        <span>{children}</span>
      </Tooltip>
      {restart && <RestartBadge />}
    </>
  );
}

export function RestartBadge() {
  return (
    <Badge className="restart" variant="light" size="xs" radius="sm" tt="none" ml={6}>
      restart required
    </Badge>
  );
}

/** What the policy decides: the value as text, and why. */
export function Locked({ path, label, whole }: { path: Path; label: ReactNode; whole?: ReactNode }) {
  const field = useField(path);
  const forbidden = field.lock?.value == null;
  return (
    <div className="locked" id={field.id} tabIndex={-1}>
      <div className="label">{label}</div>
      <div className="value">
        <Icon name="lock" size={14} /> <span>{forbidden ? "Not allowed" : (whole ?? field.lock?.value)}</span>
      </div>
      <div className="help">{field.lock?.reason}</div>
      {field.error !== undefined && <div className="wrong">{field.error}</div>}
      {field.value !== undefined && shown(field.value) !== field.lock?.value && (
        <button type="button" className="textbutton" onClick={() => field.set(undefined)}>
          Use the policy's value (now {shown(field.value)})
        </button>
      )}
    </div>
  );
}

interface Props {
  path: Path;
  label: string;
  help?: ReactNode;
}

/** A field, and what its input shows. */
export function useInput({ path, label, help }: Props) {
  const field = useField(path);
  const description = field.hint === undefined ? help : help === undefined ? field.hint : `${field.hint}. ${help}`;
  return {
    field,
    props: {
      id: field.id,
      label: (
        <Label path={path} restart={field.restart}>
          {label}
        </Label>
      ),
      description,
      error: field.error,
    },
  };
}

const asPlaceholder = (effective: unknown) =>
  effective === undefined || effective === null ? undefined : `Default: ${shown(effective)}`;

export function TextField(props: Props & { placeholder?: string; options?: string[] }) {
  const { field, props: given } = useInput(props);
  if (field.hidden) return null;
  if (field.lock !== undefined) return <Locked path={props.path} label={props.label} />;
  const common = {
    ...given,
    placeholder: props.placeholder ?? asPlaceholder(field.effective),
    value: String(field.value ?? ""),
  };
  if (props.options !== undefined)
    return <Autocomplete {...common} data={props.options} onChange={(next) => field.set(next || undefined)} />;
  return <TextInput {...common} onChange={(event) => field.set(event.currentTarget.value || undefined)} />;
}

export function NumberField(props: Props & { suffix?: string; min?: number; decimals?: boolean; w?: number }) {
  const { field, props: given } = useInput(props);
  if (field.hidden) return null;
  if (field.lock !== undefined) return <Locked path={props.path} label={props.label} />;
  const default_ = typeof field.effective === "number" ? String(field.effective) : undefined;
  return (
    <NumberInput
      {...given}
      w={props.w ?? 220}
      maw="100%"
      min={props.min}
      clampBehavior="none"
      allowDecimal={props.decimals ?? false}
      suffix={props.suffix}
      placeholder={default_ === undefined ? undefined : `${default_}${props.suffix ?? ""}`}
      value={typeof field.value === "number" ? field.value : ""}
      onChange={(next) => field.set(typeof next === "number" ? next : undefined)}
    />
  );
}

export function CheckField(
  props: Props & { on?: unknown; off?: unknown; defaultOn?: boolean; refusal?: string | null },
) {
  const { field, props: given } = useInput(props);
  const { on = true, off } = props;
  if (field.hidden) return null;
  if (field.lock !== undefined) return <Locked path={props.path} label={props.label} />;
  const checked = field.value === undefined ? (props.defaultOn ?? false) : same(field.value, on);
  return (
    <Checkbox
      {...given}
      description={props.refusal ?? given.description}
      checked={checked}
      disabled={props.refusal != null && !checked}
      onChange={(event) => field.set(event.currentTarget.checked ? on : off)}
    />
  );
}

export interface Group {
  group: string;
  items: { value: string; label: string; disabled?: boolean }[];
}

interface SelectProps extends Props {
  data: Group[] | { value: string; label: string }[];
  clear?: string; // what it means to choose nothing
  choose?: (value: string | undefined) => void; // in place of setting the field
}

export function SelectField(props: SelectProps) {
  const { field, props: given } = useInput(props);
  if (field.hidden) return null;
  const items = props.data.flatMap((each) => ("items" in each ? each.items : [each]));
  const nameOf = (value: string) => items.find((each) => each.value === value)?.label ?? value;
  if (field.lock !== undefined)
    return (
      <Locked
        path={props.path}
        label={props.label}
        whole={field.lock.value == null ? undefined : nameOf(field.lock.value)}
      />
    );
  const value = typeof field.value === "string" ? field.value : null;
  const unknown = value !== null && !items.some((each) => each.value === value);
  const data = unknown ? [{ value, label: value }, ...props.data] : props.data;
  return (
    <Select
      {...given}
      data={data as Group[]}
      searchable
      clearable={props.clear !== undefined}
      allowDeselect={props.clear !== undefined}
      clearButtonProps={{ "aria-label": `Clear ${props.label.toLowerCase()}` }}
      placeholder={
        props.clear ?? (typeof field.effective === "string" ? `Default: ${nameOf(field.effective)}` : "Choose")
      }
      nothingFoundMessage="Nothing matches"
      maxDropdownHeight={320}
      value={value}
      onChange={(next) => (props.choose ?? field.set)(next ?? undefined)}
    />
  );
}

export function RemoveButton({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={onClick}>
      <Icon name="close" size={14} />
    </ActionIcon>
  );
}

/** Brings a field into view, also one in a closed section. */
export function goTo(field: string) {
  const parts = field.replace(/\[\d+\].*$/, "").split("."); // the list, of one of its entries
  const path: Path = isMap(parts[0] ?? "") ? [parts[0] ?? ""] : parts;
  for (let length = path.length; length > 0; length--) {
    const found = document.getElementById(idOf(path.slice(0, length)));
    if (found === null) continue;
    const section = found.closest("section.part");
    if (section?.querySelector(".part-body")?.hasAttribute("hidden"))
      section.querySelector<HTMLButtonElement>(".part-head")?.click();
    requestAnimationFrame(() => {
      found.scrollIntoView({ block: "center" });
      found.focus({ preventScroll: true });
    });
    return;
  }
}
