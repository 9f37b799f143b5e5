import "./result.css";
import { Button, Group, Text } from "@mantine/core";
import { lazy, Suspense, useMemo, useState } from "react";
import { useCopied } from "../../kit/copy";
import { Icon } from "../../kit/icons";
import { download } from "../../lib/files";
import { count } from "../../lib/sizes";
import { firstChoice } from "./chartdata";
import { useDownloads } from "./downloads";
import { Grid } from "./grid";
import { columnsOf, csv, nextSort, type Row, type Sort, sortedRows, tabbed } from "./rows";

const ResultChart = lazy(() => import("./chart"));

interface Props {
  schema: { name: string; type: string }[];
  rows: Row[];
  truncated: boolean;
}

/** A table as the result of a command: sorted by its heads, copied, saved, or drawn as a chart. */
export function ResultTable({ schema, rows, truncated }: Props) {
  const columns = useMemo(() => columnsOf(schema), [schema]);
  const [sort, setSort] = useState<Sort>();
  const [drawn, setDrawn] = useState(false);
  const downloads = useDownloads();
  const [copied, copy] = useCopied();
  const ordered = useMemo(() => sortedRows(rows, columns, sort), [rows, columns, sort]);
  const chartable = rows.length > 0 && firstChoice(columns) !== undefined;
  const names = schema.map((each) => each.name);
  return (
    <>
      {drawn ? (
        <Suspense fallback={<Text c="dimmed">Loading the chart</Text>}>
          <ResultChart columns={columns} rows={ordered} />
        </Suspense>
      ) : (
        <Grid columns={columns} rows={ordered} sort={sort} onSort={(at) => setSort(nextSort(sort, at))} />
      )}
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          {count(rows.length, "row")}
          {truncated ? "; the result has more rows" : ""}
        </Text>
        {chartable && (
          <Button variant="subtle" color="gray" aria-pressed={drawn} onClick={() => setDrawn(!drawn)}>
            {drawn ? "Table" : "Chart"}
          </Button>
        )}
        <Button
          variant="subtle"
          color="gray"
          leftSection={<Icon name={copied ? "check" : "copy"} size={14} />}
          onClick={() => copy(tabbed(names, ordered))}
        >
          {copied ? "Copied" : "Copy"}
        </Button>
        {downloads && (
          <Button
            variant="subtle"
            color="gray"
            leftSection={<Icon name="download" size={14} />}
            onClick={() => download("result.csv", [csv(names, ordered)], "text/csv")}
          >
            CSV
          </Button>
        )}
      </Group>
    </>
  );
}
