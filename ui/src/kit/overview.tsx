import { Button, Code, Stack, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

/** Numbers above a list. */
export function Counters({ counters }: { counters: [name: string, value: string][] }) {
  return (
    <dl className="counters">
      {counters.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface Props {
  text: string;
  to: "/compute/create" | "/compute/pools/create";
  label: string;
  code: string; // with the SDK
}

/** How to create the first object of a list. */
export function Beginning({ text, to, label, code }: Props) {
  return (
    <Stack className="nothing" align="flex-start" gap="xs">
      <Text>{text}</Text>
      <Button component={Link} to={to}>
        {label}
      </Button>
      <Text c="dimmed">Or with the SDK:</Text>
      <Code block>{code}</Code>
    </Stack>
  );
}
