import { Autocomplete, type AutocompleteProps, type ComboboxItem } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { KINDS } from "../access/principals";
import type { Grant } from "./calls";
import { folderQuery, isPrincipalQuery, principalsQuery } from "./choices";
import { typedIn } from "./places";
import { SETTLE_MS } from "./state";

type Given = Omit<AutocompleteProps, "value" | "onChange" | "data">;
interface Props extends Given {
  value: string;
  change: (value: string) => void;
}

const asTheyCome = ({ options }: { options: unknown[] }) => options as ComboboxItem[]; // the server has chosen them

/** The name of somebody, chosen from those that there are. */
export function PrincipalInput({ kind, value, change, ...rest }: Props & { kind: Grant["kind"] }) {
  const [near, setNear] = useState(false);
  const [settled] = useDebouncedValue(value.trim(), SETTLE_MS);
  const found = useQuery({ ...principalsQuery(kind, settled), enabled: near }).data ?? [];
  const known = useQuery(isPrincipalQuery(kind, settled)).data;
  const labels = new Map(found.map((each) => [each.value, each.label]));
  return (
    <Autocomplete
      {...rest}
      spellCheck={false}
      value={value}
      onChange={change}
      onFocus={() => setNear(true)}
      onBlur={() => setNear(false)}
      data={found.map((each) => each.value)}
      filter={asTheyCome}
      maxDropdownHeight={240}
      error={known === false && settled === value.trim() ? `No ${KINDS[kind].toLowerCase()} has this name.` : undefined}
      renderOption={({ option }) => (
        <span>
          {option.value}{" "}
          {labels.get(option.value) !== option.value && <span className="soft">{labels.get(option.value)}</span>}
        </span>
      )}
    />
  );
}

interface PathProps extends Props {
  bare?: "workspace"; // where a path without a prefix lies
  start: string; // with which paths begin here: offered while nothing is typed
  trouble?: string; // what the server says against it
  looks?: boolean; // whether it looks by itself if the file is there
}

/** A path, typed or chosen folder by folder. */
export function PathInput({ value, change, bare, start, trouble, looks = false, ...rest }: PathProps) {
  const [near, setNear] = useState(false);
  const [settled] = useDebouncedValue(value === "" ? start : value, SETTLE_MS);
  const typed = typedIn(settled, bare);
  const asked = useQuery({
    ...folderQuery(typed?.folder ?? { api: "dbfs", path: "/" }),
    enabled: near && typed !== undefined,
  });
  const names = typed === undefined ? [] : (asked.data ?? []);
  const missing =
    looks && typed !== undefined && typed.name !== "" && asked.data !== undefined && !near && settled === value
      ? !asked.data.includes(typed.name)
      : false;
  return (
    <Autocomplete
      {...rest}
      spellCheck={false}
      value={value}
      onChange={change}
      onFocus={() => setNear(true)}
      onBlur={() => setNear(false)}
      data={names
        .filter((each) => each.toLowerCase().includes((typed?.name ?? "").toLowerCase()))
        .map((each) => `${typed?.before}${each}`)}
      filter={asTheyCome}
      limit={100}
      maxDropdownHeight={240}
      error={trouble ?? (missing ? `${value} does not exist.` : undefined)}
    />
  );
}
