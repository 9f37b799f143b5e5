import { Text } from "@mantine/core";

/** What the server says against it. */
export function Refused({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <Text size="sm" c="var(--mantine-color-error)" role="alert" className="said">
      {text}
    </Text>
  );
}
