import { Autocomplete, MultiSelect, NativeSelect, Text, TextInput } from "@mantine/core";
import type { Widget } from "../code/commands";
import { useValue } from "../lib/value";
import type { OpenNotebook } from "./book";
import { isPending, shownValue } from "./widgets";

/** A control for each widget that the notebook's code has made. */
export function WidgetBar({ book }: { book: OpenNotebook }) {
  const state = useValue(book.widgets);
  if (state.list.length === 0) return null;
  return (
    <section className="nbwidgets" aria-label="Widgets">
      {state.list.map((each) => (
        <Control
          key={each.name}
          widget={each}
          value={shownValue(state, each)}
          choose={(value) => book.choose(each.name, value)}
        />
      ))}
      {isPending(state) && (
        <Text size="sm" c="dimmed" role="status" className="pending">
          The next run uses the changed values.
        </Text>
      )}
    </section>
  );
}

interface Props {
  widget: Widget;
  value: string;
  choose: (value: string) => void;
}

function Control({ widget: { name, kind, label, choices = [] }, value, choose }: Props) {
  const common = { size: "xs", label: label || name, value } as const;
  const distinct = [...new Set(choices)];
  if (kind === "dropdown")
    return <NativeSelect {...common} data={distinct} onChange={(event) => choose(event.currentTarget.value)} />;
  if (kind === "combobox") return <Autocomplete {...common} data={distinct} onChange={choose} />;
  if (kind === "multiselect") {
    const chosen = value.split(",").filter((each) => distinct.includes(each));
    return (
      <MultiSelect
        {...common}
        value={chosen}
        data={distinct}
        // One stays chosen: the empty text is no choice.
        onChange={(next) => next.length > 0 && choose(distinct.filter((each) => next.includes(each)).join(","))}
      />
    );
  }
  return <TextInput {...common} onChange={(event) => choose(event.currentTarget.value)} />;
}
