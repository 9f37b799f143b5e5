import { Button, TextInput } from "@mantine/core";
import { type ClipboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { Icon } from "../app/icons";
import { idOf, Label, Locked, RemoveButton, RestartBadge, restarts } from "./fields";
import { hint } from "./policy";
import { isMap, read, same } from "./spec";
import { errorsAt, useEditor } from "./state";

interface Row {
  id: number;
  key: string;
  value: string;
}

let last = 0;
const row = (key = "", value = ""): Row => ({ id: ++last, key, value });
const rowsOf = (map: object) => Object.entries(map).map(([key, value]) => row(key, String(value)));

/** What the rows make; undefined if they are empty. A row without a key is not finished and does not count. */
function mapOf(rows: Row[]): Record<string, string> | undefined {
  const found = rows.filter((each) => each.key !== "");
  return found.length === 0 ? undefined : Object.fromEntries(found.map((each) => [each.key, each.value]));
}

/** `spark.a b`, `A=b` or `a: b`, one on each line. */
function linesOf(text: string): [string, string][] {
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const parts = /^(?:export\s+)?([^\s=]+?)(?:\s*=\s*|:\s+|\s+)(.*)$/.exec(line);
      return [parts?.[1] ?? line, parts?.[2] ?? ""];
    });
}

/** Keys and values. Pasting several lines makes several rows. */
export function MapField({
  name,
  label,
  help,
  keyLabel,
  valueLabel,
  add,
}: {
  name: string;
  label: string;
  help: ReactNode;
  keyLabel: string;
  valueLabel: string;
  add: string;
}) {
  const editor = useEditor();
  const value = (read(editor.draft, [name]) ?? {}) as Record<string, string>;
  const [rows, setRows] = useState<Row[]>(() => rowsOf(value));
  const box = useRef<HTMLFieldSetElement>(null);
  useEffect(() => {
    setRows((now) => (same(mapOf(now) ?? {}, value) ? now : rowsOf(value))); // changed elsewhere: as JSON, by a merge
  }, [value]);
  const change = (next: Row[]) => {
    setRows(next);
    editor.set([name], mapOf(next));
  };
  const edit = (id: number, part: Partial<Row>) =>
    change(rows.map((each) => (each.id === id ? { ...each, ...part } : each)));
  const paste = (event: ClipboardEvent, id: number) => {
    const text = event.clipboardData.getData("text");
    if (!text.trim().includes("\n")) return;
    event.preventDefault();
    const found = linesOf(text).map(([key, inner]) => row(key, inner));
    change(rows.flatMap((each) => (each.id !== id ? [each] : each.key || each.value ? [each, ...found] : found)));
  };
  const grow = () => {
    setRows([...rows, row()]);
    requestAnimationFrame(() =>
      [...(box.current?.querySelectorAll(".pair") ?? [])].at(-1)?.querySelector("input")?.focus(),
    );
  };
  const repeated = new Set(rows.map((each) => each.key).filter((key, at, all) => key && all.indexOf(key) !== at));
  const locks = (editor.verdict?.locks ?? []).filter((each) => each.field.startsWith(`${name}.`) && !each.hidden);
  const rules = [...editor.rules].filter(([path, rule]) => path.startsWith(`${name}.`) && hint(rule) !== undefined);
  const errors = errorsAt(editor.errors, name).filter(
    (each) => !rows.some((one) => each.field === `${name}.${one.key}` && one.key),
  );
  if (editor.lock([name]) !== undefined) return <Locked path={[name]} label={label} />;
  return (
    <fieldset className="map" id={idOf([name])} tabIndex={-1} ref={box} aria-label={label}>
      <div className="label">
        <Label path={[name]}>{label}</Label>
      </div>
      {locks.map((each) => (
        <Locked
          key={each.field}
          path={[name, each.field.slice(name.length + 1)]}
          label={<code>{each.field.slice(name.length + 1)}</code>}
        />
      ))}
      {rows.map((each, at) => {
        const wrong = editor.errors.filter((one) => each.key && one.field === `${name}.${each.key}`);
        const twice = repeated.has(each.key) ? "This key is there twice: the last one counts." : undefined;
        return (
          <div className="pair" key={each.id}>
            <TextInput
              aria-label={`${keyLabel} ${at + 1}`}
              placeholder={at === 0 ? keyLabel : undefined}
              value={each.key}
              error={wrong.map((one) => one.message).join("\n") || twice}
              onChange={(event) => edit(each.id, { key: event.currentTarget.value })}
              onPaste={(event) => paste(event, each.id)}
            />
            <TextInput
              aria-label={`${valueLabel} ${at + 1}`}
              placeholder={at === 0 ? valueLabel : undefined}
              value={each.value}
              onChange={(event) => edit(each.id, { value: event.currentTarget.value })}
            />
            <RemoveButton
              label={`Remove ${each.key || `row ${at + 1}`}`}
              onClick={() => change(rows.filter((one) => one.id !== each.id))}
            />
            {isMap(name) && each.key !== "" && restarts(editor, [name, each.key]) && <RestartBadge />}
          </div>
        );
      })}
      <div className="under">
        <Button variant="default" leftSection={<Icon name="plus" size={14} />} onClick={grow}>
          {add}
        </Button>
        <span className="help">{help}</span>
      </div>
      {rules.map(([path, rule]) => (
        <div className="help" key={path}>
          <code>{path.slice(name.length + 1)}</code>: {hint(rule)}
        </div>
      ))}
      {errors.map((each) => (
        <div className="wrong" key={each.message}>
          {each.message}
        </div>
      ))}
    </fieldset>
  );
}
