import "@mantine/notifications/styles.layer.css";
import { Button, Group } from "@mantine/core";
import { Notifications, notifications } from "@mantine/notifications";

const LASTS_MS = 6000;

/** Of what is being done. */
export interface Progress {
  update: (text: string) => void;
  end: () => void;
}

const COMMON = {
  role: "status", // none of them interrupts what is being read
  closeButtonProps: { "aria-label": "Close this message" },
} as const;

/** Where messages are shown: below all else on the page, and above its dialogs. */
export default function Notices() {
  return <Notifications position="bottom-right" limit={5} autoClose={LASTS_MS} zIndex={400} aria-live="polite" />;
}

export function show(message: string, { failed = false, stays = false }: { failed?: boolean; stays?: boolean }) {
  notifications.show({
    ...COMMON,
    message,
    color: failed ? "var(--b-bad)" : "var(--b-good)",
    autoClose: failed || stays ? false : LASTS_MS,
  });
}

export function begin(text: string, stop: { label: string; act: () => void }): Progress {
  const message = (said: string) => (
    <Group justify="space-between" gap="xs">
      {said}
      <Button variant="default" onClick={stop.act}>
        {stop.label}
      </Button>
    </Group>
  );
  const constant = { ...COMMON, loading: true, autoClose: false, withCloseButton: false } as const;
  const id = notifications.show({ ...constant, message: message(text) });
  return {
    update: (next) => notifications.update({ ...constant, id, message: message(next) }),
    end: () => void notifications.hide(id),
  };
}
