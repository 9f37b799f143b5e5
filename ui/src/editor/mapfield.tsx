import { type ReactNode, useEffect, useRef, useState } from "react";
import { idOf, Label, Locked, RestartBadge, restarts } from "./fields";
import { mapOf, type Pair, pairsOf } from "./pairing";
import { Pairs } from "./pairs";
import { hint } from "./policy";
import { isMap, read, same } from "./spec";
import { errorsAt, useEditor } from "./state";

interface Props {
  name: string;
  label: string;
  help: ReactNode;
  keyLabel: string;
  valueLabel: string;
  add: string;
}

/** A field of keys and values. */
export function MapField({ name, label, ...words }: Props) {
  const editor = useEditor();
  const value = (read(editor.draft, [name]) ?? {}) as Record<string, string>;
  const [pairs, setPairs] = useState<Pair[]>(() => pairsOf(value));
  useEffect(() => {
    setPairs((now) => (same(mapOf(now), value) ? now : pairsOf(value))); // changed elsewhere: as JSON, by a merge
  }, [value]);
  const latest = useRef(pairs);
  latest.current = pairs;
  const change = (make: (now: Pair[]) => Pair[]) => {
    const next = make(latest.current);
    latest.current = next;
    setPairs(next);
    const map = mapOf(next);
    editor.set([name], Object.keys(map).length > 0 ? map : undefined);
  };
  const locks = (editor.verdict?.locks ?? []).filter((each) => each.field.startsWith(`${name}.`) && !each.hidden);
  const rules = [...editor.rules].filter(([path, rule]) => path.startsWith(`${name}.`) && hint(rule) !== undefined);
  const errors = errorsAt(editor.errors, name).filter(
    (each) => !pairs.some((one) => each.field === `${name}.${one.key}` && one.key),
  );
  if (editor.lock([name]) !== undefined) return <Locked path={[name]} label={label} />;
  return (
    <fieldset className="map" id={idOf([name])} tabIndex={-1} aria-label={label}>
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
      <Pairs
        {...words}
        pairs={pairs}
        change={change}
        errorOf={(key) =>
          editor.errors
            .filter((each) => each.field === `${name}.${key}`)
            .map((each) => each.message)
            .join("\n")
        }
        beside={(key) => isMap(name) && restarts(editor, [name, key]) && <RestartBadge />}
      />
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
