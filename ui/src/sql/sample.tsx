import { Button, Group, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { words } from "../api/client";
import type { Outcome, Progress } from "../code/commands";
import { JobsProgress } from "../code/progress";
import { ResultView } from "../code/result/result";
import { Icon } from "../kit/icons";
import { lasting, useNow } from "../lib/time";
import { sampleOf } from "./names";
import { answerOf } from "./statement";
import { TargetPicker, takesStatements, useTarget } from "./target";

type State =
  | { at: "running"; begun: number; progress?: Progress } // begun: epoch ms
  | { at: "over"; outcome?: Outcome; failure?: string }; // without both: cancelled

/** Rows of a table, which a cluster reads when the user asks for them. `name`: as in SQL. */
export function Sample({ name }: { name: string }) {
  const [state, setState] = useState<State>();
  const reading = useRef<AbortController>(null);
  useEffect(() => () => reading.current?.abort(), []);
  const target = useTarget();
  const { cluster } = target;
  const sql = sampleOf(name);
  const read = async (clusterId: string) => {
    const begun = Date.now();
    const stop = new AbortController();
    reading.current = stop;
    const tell = (now: State) => reading.current === stop && setState(now);
    stop.signal.addEventListener("abort", () => tell({ at: "over" }));
    tell({ at: "running", begun });
    try {
      const seen = (progress: Progress | undefined) => !stop.signal.aborted && tell({ at: "running", begun, progress });
      tell({ at: "over", outcome: await answerOf(clusterId, sql, stop.signal, seen) });
    } catch (error) {
      if (!stop.signal.aborted) tell({ at: "over", failure: words(error) });
    }
  };
  return (
    <>
      <Group gap={6} align="center">
        <TargetPicker target={target} />
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
          cluster && (
            <Button
              leftSection={<Icon name="play" size={14} filled />}
              disabled={!takesStatements(cluster)}
              onClick={() => void read(cluster.cluster_id)}
            >
              Read rows
            </Button>
          )
        )}
      </Group>
      <code className="said soft">{sql}</code>
      {state?.at === "running" && <JobsProgress jobs={state.progress?.jobs ?? []} />}
      {state?.at === "over" && <Over {...state} />}
    </>
  );
}

function Over({ outcome, failure }: { outcome?: Outcome; failure?: string }) {
  if (failure !== undefined)
    return (
      <Text c="var(--mantine-color-error)" role="alert" className="said">
        {failure}
      </Text>
    );
  if (outcome?.result) return <ResultView result={outcome.result} />;
  return <Text c="dimmed">Cancelled.</Text>;
}

function Since({ begun }: { begun: number }) {
  const now = useNow(1000);
  return (
    <span className="word wait" role="status">
      Running <span className="soft">{lasting(now - begun)}</span>
    </span>
  );
}
