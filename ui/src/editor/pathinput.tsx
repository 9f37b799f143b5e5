import { Autocomplete, type AutocompleteProps, type ComboboxParsedItem } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useStill } from "../lib/press";
import { folderQuery } from "./folders";
import { entriesOf, typedIn } from "./places";

const SETTLE_MS = 150;
const MOST = 100; // offered at once
const asTheyCome = ({ options }: { options: ComboboxParsedItem[] }) => options;

interface Props extends Omit<AutocompleteProps, "value" | "onChange" | "data"> {
  value: string;
  change: (value: string) => void;
  bare?: "workspace"; // where a path without a prefix lies
  start?: string; // with which paths begin here: offered while nothing is typed
  ends?: string; // of files that are offered
  trouble?: string; // what the server says against it
  looks?: boolean; // whether it looks by itself if the file is there
}

/** A text that may be a path: then folders and files are offered as one types, folder by folder. */
export function PathInput({ value, change, bare, start = "", ends, trouble, looks = false, ...rest }: Props) {
  const [near, setNear] = useState(false);
  const [opened, setOpened] = useState(false);
  const [settled] = useDebouncedValue(value === "" ? start : value, SETTLE_MS);
  const typed = typedIn(settled, bare);
  const asked = useQuery({
    ...folderQuery(typed?.folder ?? { api: "dbfs", path: "/" }),
    enabled: near && typed !== undefined,
  });
  const names = typed === undefined ? undefined : asked.data;
  const missing = looks && !near && settled === value && typed?.name && names && !names.includes(typed.name);
  const error = useStill(trouble ?? (missing ? `${value} does not exist.` : undefined));
  return (
    <Autocomplete
      {...rest}
      spellCheck={false}
      value={value}
      onChange={change}
      dropdownOpened={opened}
      onDropdownOpen={() => setOpened(true)}
      onDropdownClose={() => setOpened(false)}
      onOptionSubmit={(path) => path.endsWith("/") && setTimeout(() => setOpened(true))} // go on inside of the folder
      onFocus={() => setNear(true)}
      onBlur={() => setNear(false)}
      data={typed === undefined ? [] : entriesOf(typed, names ?? [], ends)}
      filter={asTheyCome}
      limit={MOST}
      maxDropdownHeight={240}
      error={error}
    />
  );
}
