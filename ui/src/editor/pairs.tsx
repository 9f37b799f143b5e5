import { Button, TextInput } from "@mantine/core";
import type { ClipboardEvent, MouseEvent, ReactNode } from "react";
import { flushSync } from "react-dom";
import { Icon } from "../kit/icons";
import { RemoveButton } from "./fields";
import { linesOf, type Pair, pair } from "./pairing";

interface Props {
  pairs: Pair[];
  change: (make: (pairs: Pair[]) => Pair[]) => void;
  keyLabel: string;
  valueLabel: string;
  add: string;
  help: ReactNode;
  errorOf?: (key: string) => string;
  beside?: (key: string) => ReactNode;
}

/** Keys and values that people choose, inside a fieldset. Pasting several lines makes several pairs. */
export function Pairs({ pairs, change, keyLabel, valueLabel, add, help, errorOf, beside }: Props) {
  const edit = (id: number, part: Partial<Pair>) =>
    change((now) => now.map((each) => (each.id === id ? { ...each, ...part } : each)));
  const paste = (event: ClipboardEvent, id: number) => {
    const text = event.clipboardData.getData("text");
    if (!text.trim().includes("\n")) return;
    event.preventDefault();
    const pasted = linesOf(text).map(([key, value]) => pair(key, value));
    change((now) =>
      now.flatMap((each) => (each.id !== id ? [each] : each.key || each.value ? [each, ...pasted] : pasted)),
    );
  };
  const grow = (event: MouseEvent<HTMLElement>) => {
    const box = event.currentTarget.closest("fieldset");
    flushSync(() => change((now) => [...now, pair()])); // later, the focus would leave a field in which one types already
    [...(box?.querySelectorAll<HTMLInputElement>(".pair input") ?? [])].at(-2)?.focus();
  };
  const keys = pairs.map((each) => each.key);
  return (
    <>
      {pairs.map((each, at) => {
        const twice = each.key && keys.indexOf(each.key) !== at ? "Duplicate key. Only the last value is used." : "";
        return (
          <div className="pair" key={each.id}>
            <TextInput
              aria-label={`${keyLabel} ${at + 1}`}
              placeholder={at === 0 ? keyLabel : undefined}
              value={each.key}
              error={(each.key && errorOf?.(each.key)) || twice || undefined}
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
              onClick={() => change((now) => now.filter((one) => one.id !== each.id))}
            />
            {each.key !== "" && beside?.(each.key)}
          </div>
        );
      })}
      <div className="under">
        <Button variant="default" leftSection={<Icon name="plus" size={14} />} onClick={grow}>
          {add}
        </Button>
        <span className="help">{help}</span>
      </div>
    </>
  );
}
