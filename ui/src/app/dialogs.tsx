import { Button, Group, Kbd, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMounted } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { session } from "../api/session";
import { asked, isTyped } from "../kit/confirm";
import { help } from "../kit/keys";
import { useValue } from "../lib/value";
import { Palette } from "./palette";

/** The dialogs that any page can open. */
export default function Dialogs() {
  const made = useMounted(); // only a dialog that is made closed gives the focus back
  return (
    <>
      <Help made={made} />
      <Palette made={made} />
      <Confirmation made={made} />
      <Expired made={made} />
    </>
  );
}

interface Made {
  made: boolean;
}

const KEYS: [string[], string][] = [
  [["/"], "Search the list"],
  [["c"], "Create compute; on a row of the list: clone it"],
  [["C"], "Create compute like your last one"],
  [["j"], "Next row of the list"],
  [["k"], "Previous row of the list"],
  [["e"], "Edit the row"],
  [["r"], "Restart the row"],
  [["Ctrl", "Enter"], "Save or create"],
  [["Ctrl", "K"], "Go to a page, or do something with a cluster"],
  [["Ctrl", "`"], "Open or close the console of a cluster"],
  [["?"], "Show keyboard shortcuts"],
  [["Esc"], "Close what is open"],
];

function Help({ made }: Made) {
  return (
    <Modal opened={useValue(help) && made} onClose={() => help.set(false)} title="Keyboard shortcuts" centered>
      <Stack gap="xs">
        {KEYS.map(([keys, what]) => (
          <Group key={what} justify="space-between">
            <Text>{what}</Text>
            <Group gap={4}>
              {keys.map((key) => (
                <Kbd key={key}>{key}</Kbd>
              ))}
            </Group>
          </Group>
        ))}
      </Stack>
    </Modal>
  );
}

function Confirmation({ made }: Made) {
  const question = useValue(asked);
  const [last, setLast] = useState(question); // what is read while the dialog fades
  const [typed, setTyped] = useState("");
  if (question !== null && question !== last) {
    setLast(question);
    setTyped("");
  }
  const answer = (yes: boolean) => {
    question?.answer(yes);
    asked.set(null);
  };
  const wants = last?.typed;
  const ready = wants === undefined || isTyped(wants, typed);
  return (
    // A question may be asked from within another dialog, and is then above it.
    <Modal opened={question !== null && made} onClose={() => answer(false)} title={last?.title} centered zIndex={300}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) answer(true);
        }}
      >
        <Text mb="md">{last?.consequence}</Text>
        {wants !== undefined && (
          <TextInput
            mb="md"
            label={`Type ${wants} to confirm`}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            data-autofocus
          />
        )}
        <Group justify="flex-end" gap="xs">
          <Button
            variant="default"
            onClick={() => answer(false)}
            data-autofocus={wants === undefined ? true : undefined}
          >
            Cancel
          </Button>
          <Button type="submit" disabled={!ready}>
            {last?.action}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

function Expired({ made }: Made) {
  const expired = useValue(session.expired);
  const other = useValue(session.other);
  const queries = useQueryClient();
  const [still, setStill] = useState(false);
  useEffect(() => {
    if (!expired) return;
    const look = () => void session.renew();
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  }, [expired]);
  const goOn = async () => {
    const renewed = await session.renew();
    setStill(!renewed);
    if (renewed) void queries.invalidateQueries();
  };
  return (
    <Modal opened={expired && made} onClose={() => {}} withCloseButton={false} title="Your session has ended" centered>
      <Text mb="md">Log in again in another tab, then continue here. Nothing on this page is lost.</Text>
      {(still || other) && (
        <Text mb="md" c="var(--mantine-color-error)" role="alert">
          {other
            ? `You are logged in as ${other} now, and this page is another user's. Log in as that user, or reload the page: what is not saved is then lost.`
            : "You are not logged in yet."}
        </Text>
      )}
      <Group justify="flex-end" gap="xs">
        {other && (
          <Button variant="default" onClick={() => location.reload()}>
            Reload
          </Button>
        )}
        <Button variant="default" onClick={() => void goOn()}>
          Continue
        </Button>
        <Button component="a" href="/login" target="_blank" rel="noopener" data-autofocus>
          Log in
        </Button>
      </Group>
    </Modal>
  );
}
