import { Group, NativeSelect, TextInput } from "@mantine/core";
import type { Given } from "../statements/drafts";
import type { Parameter } from "../statements/execute";
import { parametersIn } from "./script";

const TYPES = ["STRING", "INT", "BIGINT", "DOUBLE", "DECIMAL(38,9)", "BOOLEAN", "DATE", "TIMESTAMP"];
const NONE: Given = { type: "STRING", value: "" };

/** The parameters of a statement as it is sent. An empty text is a text; of other types, it is NULL. */
export const parametersOf = (sql: string, given: Record<string, Given>): Parameter[] =>
  parametersIn(sql).map((name) => {
    const { type, value } = given[name] ?? NONE;
    return value === "" && type !== "STRING" ? { name, type } : { name, type, value };
  });

interface Props {
  names: string[];
  given: Record<string, Given>;
  change: (given: Record<string, Given>) => void;
}

/** A field for each parameter of the text. */
export function ParameterFields({ names, given, change }: Props) {
  return (
    <fieldset className="parameters" aria-label="Parameters">
      {names.map((name) => {
        const now = given[name] ?? NONE;
        const set = (news: Partial<Given>) => change({ ...given, [name]: { ...now, ...news } });
        return (
          <Group key={name} gap={4} align="flex-end" wrap="nowrap">
            <TextInput
              size="xs"
              label={`:${name}`}
              placeholder={now.type === "STRING" ? undefined : "NULL"}
              value={now.value}
              onChange={(event) => set({ value: event.currentTarget.value })}
            />
            <NativeSelect
              size="xs"
              aria-label={`Type of :${name}`}
              data={TYPES}
              value={now.type}
              onChange={(event) => set({ type: event.currentTarget.value })}
            />
          </Group>
        );
      })}
    </fieldset>
  );
}
