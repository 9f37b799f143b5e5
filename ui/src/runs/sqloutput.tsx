import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { components } from "../api/schema";
import { warehousesQuery } from "../api/warehouses";
import { Scroller } from "../kit/scroller";
import { count } from "../lib/sizes";

const ResultTable = lazy(() => import("../code/result/table").then((found) => ({ default: found.ResultTable })));

/** What a SQL task has run, and the first rows of the last statement's result. */
export function SqlOutput({ output, over }: { output: components["schemas"]["SqlOutput"]; over: boolean }) {
  const { query_text, sql_statements: begun, result } = output.query_output;
  return (
    <>
      <details>
        <summary>{count(begun.length, "statement")}</summary>
        <Scroller className="code" label="SQL">
          {query_text}
        </Scroller>
      </details>
      {result == null ? (
        !over && (
          <Text size="sm" c="dimmed">
            The result is shown when the task has ended.
          </Text>
        )
      ) : result.columns.length === 0 ? (
        <Text size="sm">Done. The last statement returns no rows.</Text>
      ) : (
        <Suspense fallback={<Text c="dimmed">Loading the table</Text>}>
          <ResultTable
            schema={result.columns.map(({ name, type_text }) => ({ name, type: type_text }))}
            rows={result.data_array}
            truncated={result.truncated}
          />
        </Suspense>
      )}
    </>
  );
}

/** The SQL warehouse of an attempt. */
export function OnWarehouse({ id }: { id: string }) {
  const found = useQuery(warehousesQuery).data?.find((each) => each.id === id);
  return (
    <span className="soft">
      {" "}
      on the SQL warehouse{" "}
      <Link to="/compute/warehouses/$id" params={{ id }}>
        {found?.name || id}
      </Link>
    </span>
  );
}
