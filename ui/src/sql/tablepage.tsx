import { Group, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CopyIcon } from "../kit/copy";
import { FactList } from "../kit/factlist";
import { type ObjectTab, ObjectTabs } from "../kit/objecttabs";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { exactly } from "../lib/time";
import { OpenInEditor } from "../statements/open";
import { type ColumnOf, type Table, tableQuery } from "./catalogcalls";
import { historyOf, sampleOf, sqlName } from "./names";
import type { TableTab } from "./search";
import { TableRows } from "./tablerows";

interface Props {
  of: [catalog: string, schema: string, table: string];
  tab: TableTab | undefined;
  open: (tab: TableTab | undefined) => void;
}

const isDelta = ({ data_source_format, table_type }: Table) => data_source_format === "DELTA" && table_type !== "VIEW";

/** A table or view: its columns, some rows, and what the metastore says of it. */
export function TablePage({ of, tab, open }: Props) {
  const asked = useQuery(tableQuery(...of));
  if (asked.data === undefined) return <Reading query={asked} what="Reading the table" />;
  const table = asked.data;
  const name = sqlName(...of);
  const tabs: ObjectTab<TableTab>[] = [
    { tab: "columns", label: "Columns", content: <Columns columns={table.columns ?? []} /> },
    { tab: "sample", label: "Sample data", content: <TableRows sql={sampleOf(name)} action="Read rows" /> },
    ...(isDelta(table)
      ? [
          {
            tab: "history",
            label: "History",
            content: <TableRows sql={historyOf(name)} action="Read the history" />,
          } as const,
        ]
      : []),
    { tab: "details", label: "Details", content: <Details table={table} /> },
  ];
  return (
    <>
      <Group gap="xs">
        <Title order={2} size="h4" className="said">
          {table.name} <CopyIcon text={name} what="Copy the full name" />
        </Title>
        <OpenInEditor sql={sampleOf(name)} />
      </Group>
      {table.comment && <Text className="said">{table.comment}</Text>}
      <FactList
        facts={[
          ["Type", table.table_type],
          ["Format", table.data_source_format],
          ["Columns", String(table.columns?.length ?? 0)],
          ["Created", table.created_at ? exactly(table.created_at) : undefined],
          ["Changed", exactly(table.updated_at)],
        ]}
        id={table.table_id}
      />
      <ObjectTabs label="About the table" tabs={tabs} chosen={tab} open={open} />
    </>
  );
}

function Columns({ columns }: { columns: ColumnOf[] }) {
  if (columns.length === 0) return <Text c="dimmed">The metastore does not know the columns of this table.</Text>;
  return (
    <PlainTable heads={["Column", "Type", "Null", "Comment"]}>
      {columns.map((each) => (
        <tr key={each.position}>
          <td data-label="Column">
            <b>{each.name}</b>
          </td>
          <td data-label="Type" className="mono said">
            {each.type_text}
          </td>
          <td data-label="Null">{each.nullable ? "yes" : "no"}</td>
          <td data-label="Comment">
            {each.partition_index != null && <span className="soft">Partition column. </span>}
            {each.comment}
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

function Details({ table }: { table: Table }) {
  const rows: [string, string][] = [
    ["Full name", table.full_name],
    ["Location", table.storage_location ?? ""],
    ...Object.entries(table.properties ?? {}),
  ];
  return (
    <>
      <dl className="rows">
        {rows
          .filter(([, value]) => value !== "")
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd className="mono">{value}</dd>
            </div>
          ))}
      </dl>
      {table.view_definition && (
        <Scroller className="code" label="The view's definition">
          {table.view_definition}
        </Scroller>
      )}
    </>
  );
}
