import { Button, Group, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { words } from "../api/client";
import { Icon } from "../kit/icons";
import { lasting, useNow } from "../lib/time";
import { chosenCompute } from "../statements/draftstore";
import { type Answer, answerOf } from "../statements/execute";
import { ComputePicker, useComputes } from "./compute";
import { AnswerView } from "./steps";

const MOST = 1000; // rows

type State =
  | { at: "running"; begun: number } // epoch ms
  | { at: "over"; answer?: Answer; failure?: string }; // without both: canceled

/** What a statement says of a table, when the user asks for it. `action`: what its button says. */
export function TableRows({ sql, action }: { sql: string; action: string }) {
  const [state, setState] = useState<State>();
  const reading = useRef<AbortController>(null);
  useEffect(() => () => reading.current?.abort(), []);
  const computes = useComputes();
  const { chosen } = computes;
  const read = async (compute: string) => {
    chosenCompute.set(compute);
    const stop = new AbortController();
    reading.current = stop;
    setState({ at: "running", begun: Date.now() });
    const over = await answerOf({ compute, sql, limit: MOST }, stop.signal).then(
      (answer) => ({ answer }),
      (error: unknown) => ({ failure: words(error) }),
    );
    if (reading.current === stop) setState({ at: "over", ...over });
  };
  return (
    <>
      <Group gap={6} align="center">
        <ComputePicker computes={computes} />
        {state?.at === "running" ? (
          <>
            <Button
              variant="default"
              leftSection={<Icon name="stop" size={14} filled />}
              onClick={() => reading.current?.abort()}
            >
              Cancel
            </Button>
            <Since begun={state.begun} />
          </>
        ) : (
          chosen && (
            <Button leftSection={<Icon name="play" size={14} filled />} onClick={() => void read(chosen.id)}>
              {action}
            </Button>
          )
        )}
      </Group>
      <code className="said soft">{sql}</code>
      {state?.at === "over" && <Over {...state} />}
    </>
  );
}

function Over({ answer, failure }: { answer?: Answer; failure?: string }) {
  if (failure !== undefined)
    return (
      <Text c="var(--mantine-color-error)" role="alert" className="said">
        {failure}
      </Text>
    );
  return answer === undefined ? <Text c="dimmed">Canceled.</Text> : <AnswerView answer={answer} />;
}

function Since({ begun }: { begun: number }) {
  const now = useNow(1000);
  return (
    <span className="word wait" role="status">
      Running <span className="soft">{lasting(now - begun)}</span>
    </span>
  );
}
