import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, body } from "../api/client";
import { warehousesQuery } from "../api/warehouses";
import { KINDS, type Kind, withTask } from "./newtask";

const LABELS: Record<Kind, string> = {
  "sql-file": "Path of the file",
  "sql-query": "Query",
  dbt: "Directory of the project",
};

const savedQuery = {
  queryKey: ["saved queries"],
  queryFn: () => body(api.GET("/api/2.0/sql/queries", { params: { query: { page_size: 100 } } })),
};

/** Adds a task of SQL or dbt to the tasks of a job, as a beginning to edit. */
export function AddTask({ work, change }: { work: string; change: (work: string) => void }) {
  const [kind, setKind] = useState<Kind>("sql-file");
  const [warehouse, setWarehouse] = useState("");
  const [what, setWhat] = useState("");
  const warehouses = useQuery(warehousesQuery).data ?? [];
  const queries = useQuery({ ...savedQuery, enabled: kind === "sql-query" }).data?.results ?? [];
  const on = warehouse || warehouses[0]?.id || "";
  const named = what || (kind === "sql-query" ? queries[0]?.id : "") || "";
  const added = on && named ? withTask(work, kind, on, named) : undefined;
  return (
    <div className="beside">
      <NativeSelect
        size="xs"
        label="Kind of task"
        data={[...KINDS]}
        value={kind}
        onChange={(event) => {
          setKind(event.currentTarget.value as Kind);
          setWhat("");
        }}
      />
      <NativeSelect
        size="xs"
        label="SQL warehouse"
        data={warehouses.map((each) => ({ value: each.id, label: each.name }))}
        value={on}
        onChange={(event) => setWarehouse(event.currentTarget.value)}
      />
      {kind === "sql-query" ? (
        <NativeSelect
          size="xs"
          label={LABELS[kind]}
          data={queries.map((each) => ({ value: each.id, label: each.display_name ?? each.id }))}
          value={named}
          onChange={(event) => setWhat(event.currentTarget.value)}
        />
      ) : (
        <TextInput
          label={LABELS[kind]}
          placeholder="/Workspace/Shared/"
          spellCheck={false}
          value={what}
          onChange={(event) => setWhat(event.currentTarget.value)}
        />
      )}
      <Button variant="default" disabled={added === undefined} onClick={() => added && change(added)}>
        Add task
      </Button>
    </div>
  );
}
