import "../kit/pages.css";
import "./statements.css";
import { Button, Drawer, Group, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { words } from "../api/client";
import { useUser } from "../editor/user";
import { confirm } from "../kit/confirm";
import { CopyIcon } from "../kit/copy";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { Scroller } from "../kit/scroller";
import { toast } from "../kit/toasts";
import { figure } from "../lib/sizes";
import { ago, exactly, lasting, useNow } from "../lib/time";
import { cancelStatement, historyQuery, type Query, statementQuery, type Wanted } from "./calls";
import { OpenInEditor } from "./open";

const LOOKS: Record<string, string> = { RUNNING: "wait", FINISHED: "good", FAILED: "bad", CANCELED: "off" };
const SOURCES: Record<string, string> = { THRIFT: "JDBC/ODBC", STATEMENT_API: "Statement API", JOB: "Job" };
const SHOWN = 300; // characters of a statement in the list
const MOST_KEPT = 100_000; // characters of a statement that the server keeps: what is cut must not run

interface Props {
  wanted: Wanted;
  /** Names of warehouses and clusters by their ids; without them the list is of one, and has no column for it. */
  names?: Map<string, string>;
  opened?: string; // the statement that is looked at
  open?: (id: string | undefined) => void;
  none?: ReactNode; // in place of an empty list
}

/** Statements that ran, the newest first; those that run are followed. A click on one shows what is known of it. */
export function History({ wanted, names, opened, open, none }: Props) {
  const asked = useInfiniteQuery(historyQuery(wanted));
  const [own, setOwn] = useState<string>();
  const show = open ?? setOwn;
  const shown = open ? opened : own;
  const statements = asked.data?.pages.flatMap((page) => page.res);
  if (statements === undefined) return <Reading query={asked} what="Reading the query history" />;
  return (
    <>
      {statements.length === 0 ? (
        (none ?? <Text className="nothing">No statements yet.</Text>)
      ) : (
        <Rows statements={statements} names={names} open={show} />
      )}
      {asked.hasNextPage && (
        <More what="Older statements" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
      )}
      <Drawer
        opened={shown !== undefined}
        onClose={() => show(undefined)}
        title="Statement"
        position="right"
        size="lg"
        transitionProps={{ duration: 0 }}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        {shown !== undefined && (
          <Details id={shown} known={statements.find((each) => each.query_id === shown)} names={names} />
        )}
      </Drawer>
    </>
  );
}

interface RowsProps {
  statements: Query[];
  names: Props["names"];
  open: (id: string) => void;
}

function Rows({ statements, names, open }: RowsProps) {
  const now = useNow(1000);
  const where = names ? ["Compute"] : [];
  return (
    <PlainTable heads={["Statement", "State", "Started", "Took", "Rows", "User", ...where, "Source"]}>
      {statements.map((each) => (
        <tr key={each.query_id}>
          <td data-label="Statement" className="statement">
            <button type="button" className="link mono" onClick={() => open(each.query_id)}>
              {each.query_text.trim().slice(0, SHOWN) || "(empty)"}
            </button>
          </td>
          <td data-label="State">
            <span>
              <span className={`word ${LOOKS[each.status] ?? "off"}`}>{each.status}</span>
              {each.error_message && <span className="under error">{each.error_message}</span>}
            </span>
          </td>
          <td data-label="Started" title={exactly(each.query_start_time_ms)}>
            {ago(each.query_start_time_ms, now)}
          </td>
          <td data-label="Took">{tookText(each, now)}</td>
          <td data-label="Rows">{each.rows_produced == null ? "–" : figure(each.rows_produced)}</td>
          <td data-label="User">{each.user_name}</td>
          {names && <td data-label="Compute">{names.get(each.cluster_id) ?? each.cluster_id}</td>}
          <td data-label="Source">{SOURCES[each.source] ?? each.source}</td>
        </tr>
      ))}
    </PlainTable>
  );
}

function tookText({ duration, query_start_time_ms: began }: Query, now: number): string {
  const ms = duration ?? now - began;
  return duration != null && ms < 1000 ? `${ms} ms` : lasting(ms);
}

function Details({ id, known, names }: { id: string; known: Query | undefined; names: Props["names"] }) {
  const asked = useQuery(statementQuery(id, known));
  const now = useNow(1000);
  if (asked.data === undefined) return <Reading query={asked} what="Reading the statement" rows={4} />;
  if (asked.data === null)
    return <Text>The query history no longer has this statement, or you do not have access to it.</Text>;
  const statement = asked.data;
  const compute = statement.warehouse_id || statement.cluster_id;
  const name = names?.get(compute) ?? compute;
  const to = statement.warehouse_id ? "/compute/warehouses/$id" : "/compute/clusters/$id";
  const rows: [string, ReactNode][] = [
    ["State", <span key="state" className={`word ${LOOKS[statement.status] ?? "off"}`}>{`${statement.status}`}</span>],
    ["User", statement.user_name],
    ["Started", exactly(statement.query_start_time_ms)],
    ["Took", tookText(statement, now)],
    ["Rows", statement.rows_produced == null ? "" : figure(statement.rows_produced)],
    [
      statement.warehouse_id ? "SQL warehouse" : "Cluster",
      <Link key="compute" to={to} params={{ id: compute }}>
        {name}
      </Link>,
    ],
    ["Source", SOURCES[statement.source] ?? statement.source],
    ["Client", statement.client_application],
    ["Statement id", <Id key="id" id={statement.query_id} />],
    ["Session id", <Id key="session" id={statement.session_id} />],
    ["SQLSTATE", statement.sql_state],
  ];
  return (
    <div className="statement-details">
      <Group gap="xs">
        {statement.query_text.length < MOST_KEPT && <OpenInEditor sql={statement.query_text} compute={compute} />}
        <Cancel statement={statement} />
      </Group>
      {statement.error_message && (
        <Text c="var(--mantine-color-error)" className="said mono" role="alert">
          {statement.error_message}
        </Text>
      )}
      <Scroller className="code" label="The statement">
        {statement.query_text}
      </Scroller>
      <dl className="rows" aria-label="Details">
        {rows.map(
          ([head, value]) =>
            value && (
              <div key={head}>
                <dt>{head}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
    </div>
  );
}

const Id = ({ id }: { id: string }) => (
  <>
    <span className="mono">{id}</span> <CopyIcon text={id} what="Copy the id" />
  </>
);

/** Ends a statement that runs: by the Statement API, which does so for who began it there. A client ends its own otherwise. */
function Cancel({ statement }: { statement: Query }) {
  const me = useUser();
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  if (statement.is_final || statement.source !== "STATEMENT_API" || statement.user_name !== me) return null;
  const cancel = async () => {
    const consequence = "What it has written stays as it is.";
    if (!(await confirm({ title: "Cancel this statement?", consequence, action: "Cancel the statement" }))) return;
    setBusy(true);
    try {
      await cancelStatement(statement.query_id);
    } catch (error) {
      toast(`Could not cancel the statement: ${words(error)}`, { failed: true });
    }
    setBusy(false);
    void queries.invalidateQueries({ queryKey: ["statements"] });
  };
  return (
    <Button
      variant="default"
      leftSection={<Icon name="stop" size={14} filled />}
      loading={busy}
      onClick={() => void cancel()}
    >
      Cancel
    </Button>
  );
}
