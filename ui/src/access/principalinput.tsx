import { Autocomplete, type AutocompleteProps, type ComboboxParsedItem } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { choices, containing, FEWEST, type Kind, principalsOf, ROUTES } from "./principals";
import { resources } from "./scimsearch";

const SETTLE_MS = 150;
const SHOWN = 6; // of each kind
const asTheyCome = ({ options }: { options: ComboboxParsedItem[] }) => options; // the server has found them

/** Users, groups and service principals in whose names the text is. Everyone in the workspace may ask. */
export const principalsQuery = (text: string) =>
  queryOptions({
    queryKey: ["principals", text],
    enabled: text.length >= FEWEST,
    staleTime: 60_000,
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const all = (Object.keys(ROUTES) as Kind[]).map(async (kind) => {
        return principalsOf(kind, await resources(kind, containing(ROUTES[kind].searched, text), SHOWN));
      });
      return (await Promise.all(all)).flat();
    },
  });

interface Props extends Omit<AutocompleteProps, "value" | "onChange" | "data"> {
  value: string;
  /** `kind`: of who was chosen; undefined while one types. */
  change: (name: string, kind?: Kind) => void;
}

/** A user, group or service principal: typed, or found by two letters of a name. */
export function PrincipalInput({ value, change, ...rest }: Props) {
  const [text] = useDebouncedValue(value.trim(), SETTLE_MS);
  const found = useQuery(principalsQuery(text)).data ?? [];
  const shown = value.trim().length >= FEWEST ? found : [];
  const of = (name: string) => shown.find((each) => each.name === name);
  return (
    <Autocomplete
      {...rest}
      spellCheck={false}
      autoComplete="off"
      value={value}
      data={choices(shown)}
      filter={asTheyCome}
      maxDropdownHeight={280}
      comboboxProps={{ withinPortal: true }}
      onChange={(name) => change(name)}
      onOptionSubmit={(name) => change(name, of(name)?.kind)}
      renderOption={({ option }) => (
        <span>
          {option.value} <span className="soft">{of(option.value)?.title}</span>
        </span>
      )}
    />
  );
}
