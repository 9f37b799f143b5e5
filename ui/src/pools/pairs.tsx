import { Button, TextInput } from "@mantine/core";
import { type ReactNode, useRef } from "react";
import { Icon } from "../app/icons";
import { RemoveButton } from "../editor/fields";

export interface Pair {
  id: number;
  key: string;
  value: string;
}

let last = 0;
export const pairsOf = (map: Record<string, string> | null | undefined): Pair[] =>
  Object.entries(map ?? {}).map(([key, value]) => ({ id: ++last, key, value }));

/** A row without a key is not finished and does not count. */
export const mapOf = (pairs: Pair[]): Record<string, string> =>
  Object.fromEntries(pairs.filter((each) => each.key !== "").map((each) => [each.key, each.value]));

interface Props {
  pairs: Pair[];
  change: (pairs: Pair[]) => void;
  error?: ReactNode;
}

/** Keys and values that people choose. */
export function Pairs({ pairs, change, error }: Props) {
  const box = useRef<HTMLFieldSetElement>(null);
  const edit = (id: number, part: Partial<Pair>) =>
    change(pairs.map((each) => (each.id === id ? { ...each, ...part } : each)));
  const grow = () => {
    change([...pairs, { id: ++last, key: "", value: "" }]);
    requestAnimationFrame(() =>
      [...(box.current?.querySelectorAll(".pair") ?? [])].at(-1)?.querySelector("input")?.focus(),
    );
  };
  const keys = pairs.map((each) => each.key);
  return (
    <fieldset className="map" ref={box} aria-label="Tags">
      {pairs.map((each, at) => (
        <div className="pair" key={each.id}>
          <TextInput
            aria-label={`Key ${at + 1}`}
            placeholder="Key"
            value={each.key}
            error={
              each.key && keys.indexOf(each.key) !== at ? "This key is there twice: the last one counts." : undefined
            }
            onChange={(event) => edit(each.id, { key: event.currentTarget.value })}
          />
          <TextInput
            aria-label={`Value ${at + 1}`}
            placeholder="Value"
            value={each.value}
            onChange={(event) => edit(each.id, { value: event.currentTarget.value })}
          />
          <RemoveButton
            label={`Remove ${each.key || `row ${at + 1}`}`}
            onClick={() => change(pairs.filter((one) => one.id !== each.id))}
          />
        </div>
      ))}
      <div className="under">
        <Button variant="default" leftSection={<Icon name="plus" size={14} />} onClick={grow}>
          Add a tag
        </Button>
        <span className="help">Clusters of the pool inherit them.</span>
      </div>
      {error !== undefined && <div className="wrong">{error}</div>}
    </fieldset>
  );
}
