import { Autocomplete, type AutocompleteProps, type ComboboxParsedItem } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useStill } from "../lib/press";
import { choices, containing, FEWEST, KINDS, type Kind, principalsOf, ROUTES } from "./principals";
import { resources } from "./scimsearch";

const SETTLE_MS = 150;
const SHOWN = { each: 6, alone: 20 }; // of each kind, and of a single one
const asTheyCome = ({ options }: { options: ComboboxParsedItem[] }) => options; // the server has found them

/** Those in whose names the text is; of all kinds without one. Everyone in the workspace may ask. */
export const principalsQuery = (text: string, kind?: Kind) =>
  queryOptions({
    queryKey: ["principals", kind ?? "", text],
    staleTime: 60_000,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const kinds = kind === undefined ? (Object.keys(ROUTES) as Kind[]) : [kind];
      const all = kinds.map(async (each) => {
        const filter = text === "" ? undefined : containing(ROUTES[each].searched, text);
        return principalsOf(each, await resources(each, filter, kind === undefined ? SHOWN.each : SHOWN.alone));
      });
      return (await Promise.all(all)).flat();
    },
  });

/** Whether there is one of that name. */
const isPrincipalQuery = (kind: Kind, name: string) =>
  queryOptions({
    queryKey: ["principal", kind, name],
    staleTime: 60_000,
    retry: false,
    queryFn: async () => (await resources(kind, `${ROUTES[kind].name} eq ${JSON.stringify(name)}`, 1)).length > 0,
  });

interface Props extends Omit<AutocompleteProps, "value" | "onChange" | "data"> {
  value: string;
  /** Only those of this kind: some are offered before one types, and a name that does not exist is an error. */
  kind?: Kind;
  /** `chosen`: the kind of who was chosen; undefined while one types. */
  change: (name: string, chosen?: Kind) => void;
}

/** A user, group or service principal: typed, or found by two letters of a name. */
export function PrincipalInput({ value, kind, change, ...rest }: Props) {
  const [near, setNear] = useState(false);
  const name = value.trim();
  const [text] = useDebouncedValue(name, SETTLE_MS);
  const enabled = kind === undefined ? text.length >= FEWEST : near;
  const found = useQuery({ ...principalsQuery(text, kind), enabled }).data ?? [];
  const known = useQuery({
    ...isPrincipalQuery(kind ?? "user_name", text),
    enabled: kind !== undefined && text !== "",
  });
  const unknown = useStill(known.data === false && text === name);
  const shown = kind !== undefined || name.length >= FEWEST ? found : [];
  const of = (chosen: string) => shown.find((each) => each.name === chosen);
  return (
    <Autocomplete
      {...rest}
      spellCheck={false}
      autoComplete="off"
      value={value}
      data={kind === undefined ? choices(shown) : [...new Set(shown.map((each) => each.name))]}
      filter={asTheyCome}
      maxDropdownHeight={280}
      error={kind !== undefined && unknown ? `No ${KINDS[kind].toLowerCase()} has this name.` : undefined}
      onFocus={() => setNear(true)}
      onBlur={() => setNear(false)}
      onChange={(typed) => change(typed)}
      onOptionSubmit={(chosen) => change(chosen, of(chosen)?.kind)}
      renderOption={({ option }) => (
        <span>
          {option.value} <span className="soft">{of(option.value)?.title}</span>
        </span>
      )}
    />
  );
}
