import { Button, Group, Text } from "@mantine/core";
import { ResultTable } from "../code/result/table";
import { figure } from "../lib/sizes";
import { lasting } from "../lib/time";
import type { Answer } from "../statements/execute";
import type { Compute } from "./compute";
import type { Run, Step, StepState } from "./run";
import { lineAt, mistakeIn, ofSession } from "./script";

const LOOKS: Record<StepState, string> = {
  Waiting: "off",
  Pending: "wait",
  Running: "wait",
  Succeeded: "good",
  Failed: "bad",
  Canceled: "off",
  "Not run": "off",
};

export const tookText = (ms: number) => (ms < 1000 ? `${ms} ms` : lasting(ms));

interface Props {
  run: Run;
  compute: Compute | undefined; // on which it runs, as it is now
  text: string;
  goToMistake: () => void;
}

/** What has become of each statement. The last one that has run is open. */
export function Steps({ run, compute, text, goToMistake }: Props) {
  const open = run.steps.findLastIndex((each) => each.state !== "Waiting" && each.state !== "Not run");
  return (
    <ol className="steps" aria-label="Results">
      {run.steps.map((step, at) => (
        <li key={`${run.begun} ${step.piece.from}`}>
          <details open={at === open}>
            <summary>
              <span className={`word ${LOOKS[step.state]}`}>{step.state}</span>
              <span className="mono first">{step.piece.sql.split("\n", 1)[0]}</span>
              {step.took !== undefined && <span className="soft nowrap">{tookText(step.took)}</span>}
            </summary>
            {step.state === "Pending" && compute && !compute.runs && (
              <Text size="sm">
                {compute.name} is {compute.state}. The statement runs once it is RUNNING.
              </Text>
            )}
            {step.failure !== undefined && <Failure step={step} text={text} goToMistake={goToMistake} />}
            {step.answer && <AnswerView answer={step.answer} />}
            {step.answer && ofSession(step.piece.sql) && (
              <Text size="sm" c="dimmed">
                Each statement runs in its own session, so the next one does not see this.
              </Text>
            )}
          </details>
        </li>
      ))}
    </ol>
  );
}

/** The rows of a statement. */
export function AnswerView({ answer: { columns, rows, truncated } }: { answer: Answer }) {
  if (columns.length === 0) return <Text size="sm">Done. This statement returns no rows.</Text>;
  return (
    <>
      <ResultTable schema={columns} rows={rows} truncated={false} />
      {truncated && (
        <Text size="sm">The row limit of {figure(rows.length)} was reached. The full result may have more rows.</Text>
      )}
    </>
  );
}

function Failure({ step, text, goToMistake }: { step: Step; text: string; goToMistake: () => void }) {
  const { failure = "", piece } = step;
  const from = piece.from + (mistakeIn(failure, piece.sql)?.from ?? 0);
  const same = text.slice(piece.from, piece.to) === piece.sql;
  return (
    <>
      <Text c="var(--mantine-color-error)" role="alert" className="said mono">
        {failure}
      </Text>
      {same && (
        <Group>
          <Button variant="subtle" color="gray" onClick={goToMistake}>
            Go to line {lineAt(text, from)}
          </Button>
        </Group>
      )}
    </>
  );
}
