import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, body } from "../api/client";
import { warehousesQuery } from "../api/warehouses";
import { KINDS, type Kind, nestable, OPS, withTask } from "./newtask";

const LABELS: Record<Kind, string> = {
  notebook: "Path of the notebook",
  python: "Path of the file",
  "sql-file": "Path of the file",
  "sql-query": "Query",
  dbt: "Directory of the project",
  "run-job": "Job",
  condition: "Left value",
  "for-each": "Inputs",
};
const PLACEHOLDERS: Partial<Record<Kind, string>> = {
  condition: "{{job.parameters.NAME}}",
  "for-each": '["a", "b"]',
};
const MOST = 100;

const savedQuery = {
  queryKey: ["saved queries"],
  queryFn: () => body(api.GET("/api/2.0/sql/queries", { params: { query: { page_size: MOST } } })),
};
const someJobsQuery = {
  queryKey: ["jobs to run"],
  queryFn: () => body(api.GET("/api/2.2/jobs/list", { params: { query: { limit: MOST } } })),
};

/** Adds a task to the tasks of a job, as a beginning to edit. */
export function AddTask({ work, change }: { work: string; change: (work: string) => void }) {
  const [kind, setKind] = useState<Kind>("notebook");
  const [warehouse, setWarehouse] = useState("");
  const [what, setWhat] = useState("");
  const [op, setOp] = useState(OPS[0]);
  const [right, setRight] = useState("");
  const [inner, setInner] = useState("");
  const onWarehouse = KINDS.find((each) => each.value === kind)?.on === "warehouse";
  const warehouses = useQuery({ ...warehousesQuery, enabled: onWarehouse }).data ?? [];
  const queries = useQuery({ ...savedQuery, enabled: kind === "sql-query" }).data?.results ?? [];
  const jobs = useQuery({ ...someJobsQuery, enabled: kind === "run-job" }).data?.jobs ?? [];
  const choices =
    kind === "sql-query"
      ? queries.map((each) => ({ value: each.id, label: each.display_name ?? each.id }))
      : kind === "run-job"
        ? jobs.map((each) => ({ value: String(each.job_id), label: each.settings.name ?? String(each.job_id) }))
        : undefined;
  const inners = nestable(work);
  const on = warehouse || warehouses[0]?.id || "";
  const named = what || choices?.[0]?.value || "";
  const nested = inners.includes(inner) ? inner : inners.at(-1);
  const wanted = { kind, what: named, warehouse: on, op, right, nested };
  const added = named && (on || !onWarehouse) ? withTask(work, wanted) : undefined;
  const add = () => {
    if (added === undefined) return;
    change(added);
    setWhat("");
  };
  return (
    <div className="beside">
      <NativeSelect
        size="xs"
        label="Kind of task"
        data={KINDS.map(({ value, label }) => ({ value, label }))}
        value={kind}
        onChange={(event) => {
          setKind(event.currentTarget.value as Kind);
          setWhat("");
        }}
      />
      {onWarehouse && (
        <NativeSelect
          size="xs"
          label="SQL warehouse"
          data={warehouses.map((each) => ({ value: each.id, label: each.name }))}
          value={on}
          onChange={(event) => setWarehouse(event.currentTarget.value)}
        />
      )}
      {kind === "for-each" && (
        <NativeSelect
          size="xs"
          label="Task to repeat"
          data={inners}
          value={nested ?? ""}
          onChange={(event) => setInner(event.currentTarget.value)}
        />
      )}
      {choices !== undefined ? (
        <NativeSelect
          size="xs"
          label={LABELS[kind]}
          data={choices}
          value={named}
          onChange={(event) => setWhat(event.currentTarget.value)}
        />
      ) : (
        <TextInput
          label={LABELS[kind]}
          placeholder={PLACEHOLDERS[kind] ?? "/Workspace/Shared/"}
          spellCheck={false}
          value={what}
          onChange={(event) => setWhat(event.currentTarget.value)}
        />
      )}
      {kind === "condition" && (
        <>
          <NativeSelect
            size="xs"
            label="Comparison"
            data={OPS}
            value={op}
            onChange={(event) => setOp(event.currentTarget.value)}
          />
          <TextInput
            label="Right value"
            spellCheck={false}
            value={right}
            onChange={(event) => setRight(event.currentTarget.value)}
          />
        </>
      )}
      <Button variant="default" disabled={added === undefined} onClick={add}>
        Add task
      </Button>
    </div>
  );
}
