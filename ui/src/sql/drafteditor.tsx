import { Button, Group, NativeSelect, Text, Tooltip } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { CatalogNames } from "../code/catalog";
import { CodeEditor, type Control } from "../code/editor";
import { Icon } from "../kit/icons";
import { useKept } from "../lib/kept";
import { count, figure } from "../lib/sizes";
import { lasting, useNow } from "../lib/time";
import { useValue } from "../lib/value";
import type { Draft } from "../statements/drafts";
import { chosenCompute } from "../statements/draftstore";
import { ComputePicker, useComputes } from "./compute";
import { ParameterFields, parametersOf } from "./parameters";
import { type Run, type Runner, runnerOf } from "./run";
import { mistakeIn, type Piece, parametersIn, statementsIn, wanted } from "./script";
import { Steps, tookText } from "./steps";

const LIMITS = [100, 1000, 10_000];
const HINT = "SELECT * FROM main.default.flights WHERE day = :day";
const NOTHING = () => [];

interface Props {
  user: string;
  draft: Draft;
  change: (news: Partial<Draft>) => void;
}

/** A draft: its text, its parameters, and what it runs. */
export function DraftEditor({ user, draft, change }: Props) {
  const { text } = draft;
  const queries = useQueryClient();
  const names = useMemo(() => new CatalogNames(queries), [queries]);
  const parameters = useMemo(() => parametersIn(text), [text]);
  const control = useRef<Control>(null);
  const runButton = useRef<HTMLButtonElement>(null);
  const [limit, setLimit] = useKept("sql.limit", 1000);
  const computes = useComputes();
  const { chosen } = computes;
  const runner = runnerOf(user, draft.id);
  const run = useValue(runner.run);
  const going = runner.going;
  useMistake(run, text, control);

  const start = (pieces: Piece[]) => {
    if (chosen === undefined) return;
    chosenCompute.set(chosen.id); // it stays, whatever else begins to run
    const of = (sql: string) => parametersOf(sql, draft.given);
    void runner.start({ compute: chosen.id, pieces, parameters: of, limit });
  };
  const runHere = () => start(wanted(text, control.current?.selection() ?? { from: 0, to: 0 }));
  const runAll = () => start(statementsIn(text));
  const ready = chosen !== undefined && text.trim() !== "";
  return (
    <>
      <Group gap={8} align="center">
        {going ? (
          <Button
            variant="default"
            disabled={run?.canceling}
            leftSection={<Icon name="stop" size={14} filled />}
            onClick={() => runner.cancel()}
          >
            Cancel
          </Button>
        ) : (
          <>
            <Tooltip label="The selection, or the statement at the cursor (Ctrl+Enter)">
              <Button
                ref={runButton}
                disabled={!ready}
                leftSection={<Icon name="play" size={14} filled />}
                onClick={runHere}
              >
                Run
              </Button>
            </Tooltip>
            <Button variant="default" disabled={!ready} onClick={runAll}>
              Run all
            </Button>
          </>
        )}
        <ComputePicker computes={computes} />
        <NativeSelect
          size="xs"
          aria-label="Row limit"
          data={LIMITS.map((each) => ({ value: String(each), label: `${figure(each)} rows at most` }))}
          value={String(limit)}
          onChange={(event) => setLimit(Number(event.currentTarget.value))}
        />
      </Group>
      <CodeEditor
        code={text}
        language="sql"
        label="SQL"
        hint={HINT}
        names={names}
        defined={NOTHING}
        keys={{ run: runHere, runAndNext: runAll, leave: () => runButton.current?.focus(), recall: () => false }}
        onChange={(next) => change({ text: next })}
        control={control}
      />
      <Text size="sm" c="dimmed" className="keyhelp">
        Ctrl+Enter runs the selection or the statement at the cursor, Shift+Enter runs all, Esc leaves the text.
      </Text>
      {parameters.length > 0 && (
        <ParameterFields names={parameters} given={draft.given} change={(given) => change({ given })} />
      )}
      {run && <Summary run={run} runner={runner} />}
      {run && (
        <Steps
          run={run}
          compute={computes.all.find((each) => each.id === run.compute)}
          text={text}
          goToMistake={() => control.current?.goToMark()}
        />
      )}
    </>
  );
}

/** Marks the mistake of the statement that failed, while it stands where it was. */
function useMistake(run: Run | undefined, text: string, control: { current: Control | null }) {
  const latest = useRef(text);
  latest.current = text;
  const failed = run?.steps.find((each) => each.failure !== undefined);
  useEffect(() => {
    if (failed === undefined) return control.current?.mark(undefined);
    const { piece, failure = "" } = failed;
    const mistake = mistakeIn(failure, piece.sql) ?? { from: 0, to: piece.sql.length };
    const same = latest.current.slice(piece.from, piece.to) === piece.sql;
    control.current?.mark(same ? { from: piece.from + mistake.from, to: piece.from + mistake.to } : undefined);
  }, [failed, control]);
}

/** How far all of it is. */
function Summary({ run, runner }: { run: Run; runner: Runner }) {
  const { steps, took } = run;
  const ended = steps.filter((each) => each.took !== undefined);
  const bad = steps.find((each) => each.state === "Failed" || each.state === "Canceled");
  return (
    <Group gap={8}>
      <span className={`word ${took === undefined ? "wait" : bad ? "bad" : "good"}`} role="status" aria-label="Run">
        {run.canceling && took === undefined
          ? "Canceling"
          : took === undefined
            ? `Running statement ${Math.min(ended.length + 1, steps.length)} of ${steps.length}`
            : (bad?.state ?? `${count(steps.length, "statement")} succeeded`)}
      </span>
      {runner.going ? <Elapsed since={run.begun} /> : <span className="soft">{tookText(took ?? 0)}</span>}
    </Group>
  );
}

function Elapsed({ since }: { since: number }) {
  const now = useNow(1000);
  return <span className="soft">{lasting(now - since)}</span>;
}
