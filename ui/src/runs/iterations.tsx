import { Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { exactly, lasting } from "../lib/time";
import { iterationsQuery } from "./calls";
import { isOver, stateOf, type Task, tookOf } from "./words";

/** The iterations of an attempt at a for-each task: how many there are in each state, and each one. */
export function Iterations({ attempt, now }: { attempt: Task; now: number }) {
  const query = useInfiniteQuery(iterationsQuery(attempt.run_id, isOver(attempt.state)));
  const stats = attempt.for_each_task?.stats?.task_run_stats;
  const iterations = query.data?.pages.flatMap((page) => page.iterations ?? []) ?? [];
  return (
    <>
      {stats && (
        <Text size="sm">
          {stats.total_iterations} iterations: {stats.succeeded_iterations} succeeded, {stats.failed_iterations} failed,{" "}
          {stats.active_iterations} active.
        </Text>
      )}
      {iterations.length > 0 && (
        <PlainTable heads={["Iteration", "State", "Started", "Took", "Message"]}>
          {iterations.map((each) => {
            const { word, look } = stateOf(each.state);
            const took = tookOf(each, now);
            return (
              <tr key={each.run_id}>
                <td data-label="Iteration">
                  <Link to="/jobs/runs/$id" params={{ id: String(each.run_id) }}>
                    {each.run_id}
                  </Link>
                </td>
                <td data-label="State">
                  <span className={`word ${look}`}>{word}</span>
                </td>
                <td data-label="Started">{each.start_time ? exactly(each.start_time) : "-"}</td>
                <td data-label="Took">{took === undefined ? "-" : lasting(took)}</td>
                <td data-label="Message">{each.state.state_message || "-"}</td>
              </tr>
            );
          })}
        </PlainTable>
      )}
      {query.hasNextPage && (
        <More what="More iterations" loading={query.isFetchingNextPage} load={() => void query.fetchNextPage()} />
      )}
    </>
  );
}
