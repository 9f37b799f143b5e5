import "../cluster/cluster.css";
import { Button, Group, NativeSelect, SegmentedControl, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { PrincipalInput } from "../access/principalinput";
import { userIdQuery } from "../access/scimsearch";
import { clustersQuery } from "../api/queries";
import { warehousesQuery } from "../api/warehouses";
import { isOwned, nameOf } from "../clusters/facts";
import { PageHead } from "../kit/help";
import { useTitle } from "../kit/title";
import { Waiting } from "../kit/waiting";
import { History } from "../statements/history";
import { type HistorySearch, RANGES, readHistorySearch, STATES } from "./search";

const NOBODY = "0"; // no user's id

/** The SQL statements that ran on warehouses and clusters. */
export function HistoryPage() {
  const given = useSearch({ from: "/sql/history" });
  const search = useMemo(() => readHistorySearch({ ...given }), [given]);
  const navigate = useNavigate({ from: "/sql/history" });
  const change = (changed: Partial<HistorySearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const [opened] = useState(Date.now); // a range that moved would ask again and again
  const warehouses = useQuery(warehousesQuery).data;
  const clusters = useQuery(clustersQuery).data;
  useTitle("Query history");
  const names = useMemo(() => {
    const found = new Map(
      (clusters ?? []).filter((each) => !isOwned(each)).map((each) => [each.cluster_id, nameOf(each)]),
    );
    for (const each of warehouses ?? []) found.set(each.id, each.name);
    return found;
  }, [warehouses, clusters]);
  const { user, compute, state, range, statement } = search;
  const asked = useQuery({ ...userIdQuery(user ?? ""), enabled: user !== undefined }).data;
  const userId = asked === "" ? NOBODY : asked;
  const filtered = user !== undefined || compute !== undefined || state !== undefined || range !== undefined;
  const chosen = compute !== undefined && !names.has(compute) ? [{ value: compute, label: compute }] : [];
  return (
    <div className="content">
      <PageHead title="Query history" topic="sql-warehouses" />
      <Group gap={8} align="flex-end" role="search" aria-label="Statements">
        <UserFilter name={user} choose={(next) => change({ user: next })} />
        <NativeSelect
          size="xs"
          aria-label="Compute"
          value={compute ?? ""}
          data={[
            { value: "", label: "Any compute" },
            ...[...names].map(([value, label]) => ({ value, label })).sort((a, b) => a.label.localeCompare(b.label)),
            ...chosen,
          ]}
          onChange={(event) => change({ compute: event.currentTarget.value || undefined })}
        />
        <NativeSelect
          size="xs"
          aria-label="State"
          value={state ?? ""}
          data={[{ value: "", label: "Any state" }, ...STATES]}
          onChange={(event) => change({ state: STATES.find((each) => each === event.currentTarget.value) })}
        />
        <SegmentedControl
          size="xs"
          aria-label="Started in the last"
          data={[
            { value: "1h", label: "Hour" },
            { value: "1d", label: "Day" },
            { value: "7d", label: "Week" },
            { value: "all", label: "All time" },
          ]}
          value={range ?? "all"}
          onChange={(next) => change({ range: next === "all" ? undefined : (next as HistorySearch["range"]) })}
        />
      </Group>
      {user !== undefined && userId === undefined ? (
        <Waiting what="Reading the user" />
      ) : (
        <History
          wanted={{
            user: user === undefined ? undefined : userId,
            compute,
            states: state && [state],
            from: range && opened - RANGES[range],
          }}
          names={names}
          opened={statement}
          open={(next) => change({ statement: next })}
          none={<None filtered={filtered} clear={() => void navigate({ search: {} })} />}
        />
      )}
    </div>
  );
}

function None({ filtered, clear }: { filtered: boolean; clear: () => void }) {
  return (
    <Stack className="nothing" align="flex-start" gap="xs">
      <Text>
        {filtered
          ? "No statements match."
          : "No statements yet. Those of SQL clients and of the Statement API are listed here; administrators see everybody's."}
      </Text>
      {filtered && (
        <Button variant="default" onClick={clear}>
          Clear the filters
        </Button>
      )}
    </Stack>
  );
}

/** Those of one user. */
function UserFilter({ name, choose }: { name: string | undefined; choose: (name: string | undefined) => void }) {
  const [typed, setTyped] = useState(name ?? "");
  const done = (text: string) => choose(text.trim() || undefined);
  return (
    <PrincipalInput
      size="xs"
      kind="user_name"
      aria-label="User"
      placeholder="Any user"
      value={typed}
      change={(next, chosen) => {
        setTyped(next);
        if (chosen !== undefined || next === "") done(next);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") done(typed);
      }}
    />
  );
}
