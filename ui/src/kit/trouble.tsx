import { Button, Code, Group, Stack, Text, Title } from "@mantine/core";
import { ApiError, LostConnection, words } from "../api/client";

const TITLES: Record<number, string> = {
  401: "Your session has ended",
  403: "You do not have access",
  404: "Not found",
  429: "The workspace is busy",
  503: "The workspace is busy",
};

function title(error: unknown): string {
  if (error instanceof LostConnection) return "No connection to the server";
  if (error instanceof ApiError) return TITLES[error.status] ?? "The server returned an error";
  return "Something went wrong on this page";
}

/** Says what failed, why, and what to do. `missing`: what it means that something is not there. */
export function Trouble({ error, retry, missing }: { error: unknown; retry: () => void; missing?: string }) {
  const absent = error instanceof ApiError && error.status === 404;
  return (
    <Stack className="trouble" role="alert" gap="xs" align="flex-start">
      <Title order={2} size="h4">
        {absent && missing ? missing : title(error)}
      </Title>
      <Text>{words(error)}</Text>
      {error instanceof ApiError && error.requestId && (
        <Text size="sm" c="dimmed">
          <Code>{error.code}</Code> Request <Code>{error.requestId}</Code>. See the server's log for details.
        </Text>
      )}
      <Group gap="xs">
        <Button onClick={retry}>Try again</Button>
        {!(error instanceof ApiError || error instanceof LostConnection) && (
          <Button variant="default" onClick={() => location.reload()}>
            Reload the page
          </Button>
        )}
      </Group>
    </Stack>
  );
}
