import { Text } from "@mantine/core";
import { plain } from "../../code/ansi";
import { JobsProgress } from "../../code/progress";
import { ResultView } from "../../code/result/result";
import { Scroller } from "../../kit/scroller";
import { type Run, waits } from "./cells";

/** What a cell's run shows: while it runs, what it prints and the progress of its Spark jobs; then its result. */
export function Output({ run }: { run: Run }) {
  const jobs = run.progress?.jobs ?? [];
  const printed = run.progress?.printed ?? "";
  return (
    <>
      {waits(run) && (
        <>
          <JobsProgress jobs={jobs} />
          {printed !== "" && (
            <Scroller className="printed" label="What the command has printed so far">
              {plain(printed)}
            </Scroller>
          )}
        </>
      )}
      {run.failure && (
        <Text c="var(--mantine-color-error)" role="alert" className="said">
          {run.failure}
        </Text>
      )}
      {run.note && (
        <Text size="sm" c="dimmed">
          {run.note}
        </Text>
      )}
      {run.dropped && (
        <Text size="sm" c="dimmed">
          The result was too large to keep in this browser. Run the cell again.
        </Text>
      )}
      {run.result && <ResultView result={run.result} />}
    </>
  );
}
