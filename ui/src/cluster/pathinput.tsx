import { Autocomplete, type AutocompleteProps, type ComboboxParsedItem } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { folderQuery } from "../editor/choices";
import { entriesOf, folderOf } from "./paths";

const SETTLE_MS = 150;
const MOST = 100; // offered at once
const asTheyCome = ({ options }: { options: ComboboxParsedItem[] }) => options;

interface Props extends Omit<AutocompleteProps, "value" | "onChange" | "data"> {
  value: string;
  change: (value: string) => void;
  ends?: string; // of files that are offered
}

/** A text that may be the path of a file in a volume: then folders and files are offered as one types. */
export function PathInput({ value, change, ends, ...rest }: Props) {
  const [near, setNear] = useState(false);
  const [opened, setOpened] = useState(false);
  const [settled] = useDebouncedValue(value, SETTLE_MS);
  const folder = folderOf(settled);
  const found =
    useQuery({ ...folderQuery({ api: "volumes", path: folder ?? "/Volumes" }), enabled: near && folder !== undefined })
      .data ?? [];
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
      data={folder === undefined ? [] : entriesOf(folder, found, value, ends)}
      filter={asTheyCome}
      limit={MOST}
      maxDropdownHeight={240}
    />
  );
}
