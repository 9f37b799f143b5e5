import { Button, Group, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { Icon } from "./icons";
import { Refused } from "./refused";
import { type Submit, useSubmit } from "./submit";

interface Props {
  action: string;
  submit: () => Promise<unknown>; // rejects with what the server has against it
  children: ReactNode;
}

/** Fields in one line, with the button that adds what they say. `ready`: whether there is enough to send. */
export function LineForm({ label, ready, action, submit, children }: Props & { label: string; ready: boolean }) {
  const { busy, refused, onSubmit } = useSubmit();
  return (
    <form onSubmit={onSubmit(async () => ready && (await submit()))} aria-label={label}>
      <Stack gap={4}>
        <Group gap={6} align="flex-end">
          {children}
          <Button type="submit" loading={busy} disabled={!ready} leftSection={<Icon name="plus" size={14} />}>
            {action}
          </Button>
        </Group>
        <Refused text={refused} />
      </Stack>
    </form>
  );
}

interface DialogProps extends Props {
  cancel?: string;
  close: () => void;
  aside?: (form: Submit) => ReactNode; // a button at the left
}

/** The form of a dialog, with its buttons. */
export function DialogForm({ action, cancel = "Cancel", submit, close, aside, children }: DialogProps) {
  const form = useSubmit();
  return (
    <form onSubmit={form.onSubmit(submit)}>
      <Stack gap="sm">
        {children}
        <Refused text={form.refused} />
        <Group justify={aside ? "space-between" : "flex-end"} gap="xs">
          {aside?.(form)}
          <Group gap="xs">
            <Button variant="default" onClick={close}>
              {cancel}
            </Button>
            <Button type="submit" loading={form.busy}>
              {action}
            </Button>
          </Group>
        </Group>
      </Stack>
    </form>
  );
}
