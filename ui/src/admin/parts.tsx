import { ActionIcon, Checkbox, Stack, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { Icon } from "../kit/icons";
import { useTyping } from "../kit/typing";
import { ENTITLEMENTS } from "./scim";

/** A search field whose text is in the address. */
export function Find({ label, text, change }: { label: string; text: string; change: (text?: string) => void }) {
  const [typed, setTyped] = useState(text);
  const later = useTyping((next) => change(next || undefined), 150);
  useEffect(() => setTyped(text), [text]);
  return (
    <TextInput
      data-search
      aria-label={label}
      placeholder={label}
      leftSection={<Icon name="search" />}
      w={280}
      maw="100%"
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        later(event.currentTarget.value);
      }}
      rightSection={
        typed !== "" && (
          <ActionIcon
            size="xs"
            variant="subtle"
            color="gray"
            aria-label="Clear the search"
            onClick={() => {
              setTyped("");
              change(undefined);
            }}
          >
            <Icon name="close" size={12} />
          </ActionIcon>
        )
      }
    />
  );
}

export function Entitlements({ chosen, change }: { chosen: string[]; change: (chosen: string[]) => void }) {
  return (
    <Checkbox.Group label="Entitlements" value={chosen} onChange={change} size="xs">
      <Stack gap={8} mt={4}>
        {ENTITLEMENTS.map(({ value, label, what }) => (
          <Checkbox key={value} value={value} label={label} description={what} />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}

export function Names({ names }: { names: string[] }) {
  if (names.length === 0) return <span className="soft">none</span>;
  return (
    <span className="names">
      {names.map((each) => (
        <span key={each} className="name-chip">
          {each}
        </span>
      ))}
    </span>
  );
}
