import "../cluster/cluster.css";
import "../pools/pools.css";
import "./jobs.css";
import { Checkbox, Loader, NumberInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { nodeTypesQuery } from "../api/offers";
import { runtimesQuery } from "../api/queries";
import { beginning } from "../editor/begin";
import { EditorFrame, Part } from "../editor/frame";
import { mapOf, type Pair, pairsOf } from "../editor/pairing";
import { Pairs } from "../editor/pairs";
import { useSaving } from "../editor/saving";
import { useOffers } from "../editor/state";
import { Unsaved } from "../editor/unsaved";
import { useUser } from "../editor/user";
import { Crumbs } from "../kit/crumbs";
import { BeingRead } from "../kit/objectpage";
import { useReturn } from "../kit/return";
import { useTitle } from "../kit/title";
import { Trouble } from "../kit/trouble";
import { Waiting } from "../kit/waiting";
import { AddTask } from "./addtask";
import { createJob, jobQuery, updateJob } from "./calls";
import { BEGINNING, type Draft, draftOf, firstWork, inputOf, mistakeOf, removed, taskOf, wanted } from "./draft";
import { ToldPart } from "./toldpart";
import { TriggerPart } from "./triggerpart";
import { isLocked, type Job, nameOf } from "./words";

const JsonEditor = lazy(() => import("../editor/json"));
const BACK = { to: "/jobs", label: "Jobs" } as const;
const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function CreateJobPage() {
  const ready = [useQuery(nodeTypesQuery), useQuery(runtimesQuery)];
  const failed = ready.find((each) => each.isError && each.data === undefined);
  const user = useUser();
  const offers = useOffers();
  useTitle("Create job");
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  if (user === undefined || ready.some((each) => each.data === undefined))
    return (
      <div className="content">
        <Waiting what="Reading what can be chosen" />
      </div>
    );
  const { cluster_name: _, ...cluster } = beginning(offers, user);
  return <Form user={user} initial={{ ...BEGINNING, zone: here(), work: firstWork(cluster) }} />;
}

export function EditJobPage() {
  const { id } = useParams({ from: "/jobs/$id/edit" });
  const query = useQuery({ ...jobQuery(Number(id)), refetchInterval: false });
  const user = useUser();
  useTitle(`Edit ${query.data ? nameOf(query.data) : `job ${id}`}`);
  if (query.data === undefined || user === undefined) return <BeingRead {...BACK} noun="job" query={query} />;
  if (isLocked(query.data.settings))
    return (
      <div className="content">
        <Crumbs {...BACK} />
        <h1>This job is managed by a deployment tool</h1>
        <p>
          Change it there and deploy again.{" "}
          <Link to="/jobs/$id" params={{ id }}>
            Back to the job
          </Link>
        </p>
      </div>
    );
  return <Form key={id} user={user} job={query.data} initial={draftOf(query.data, here())} />;
}

function Form({ user, job, initial: given }: { user: string; job?: Job; initial: Draft }) {
  const id = job?.job_id;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [initial] = useState(given); // a later answer of the server is for the one that compares
  const [go, setGo] = useState<{ to: string }>();
  const form = useForm({ initialValues: initial });
  const draft = form.values;
  const fields = wanted(draft);
  const fresh = (pairs: Pair[]) => pairsOf(mapOf(pairs));
  const saving = useSaving({
    noun: "job",
    id: id === undefined ? undefined : String(id),
    user,
    initial,
    draft,
    setDraft: (next) => form.setValues({ ...next, tags: fresh(next.tags), parameters: fresh(next.parameters) }),
    name: draft.name || "The job",
    fieldsOf: (of) => ({ ...wanted(of), ...(mistakeOf(of) && { work: of.work }) }),
    read: async (of) => ({
      ...wanted(draftOf(await queries.fetchQuery({ ...jobQuery(Number(of)), staleTime: 0 }), here())),
    }),
    create: async () => String(await createJob(fields)),
    edit: (of) => updateJob(Number(of), fields, removed(fields)),
    done: async (saved) => {
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["job", Number(saved)] });
      await navigate({ to: "/jobs/$id", params: { id: saved }, search: {}, ignoreBlocker: true });
    },
    placed: (message) => {
      const field = inputOf(message);
      if (field !== undefined) form.setFieldError(field, message);
      const task = taskOf(message);
      if (task !== undefined) setGo({ to: task });
      return field !== undefined;
    },
  });
  const act = () => {
    form.clearErrors();
    const mistake = mistakeOf(draft);
    if (mistake !== undefined) form.setFieldError("work", mistake);
    else saving.act();
  };
  const cancel = useReturn(() =>
    id === undefined
      ? navigate({ to: "/jobs", search: {} })
      : navigate({ to: "/jobs/$id", params: { id: String(id) }, search: {} }),
  );
  const { restored, ...frame } = saving;
  const pairs = (
    field: "tags" | "parameters",
    label: string,
    add: string,
    help: string,
    [key, value]: [string, string],
  ) => (
    <fieldset className="map" aria-label={label}>
      <Pairs
        pairs={draft[field]}
        change={(make) => form.setFieldValue(field, make)}
        keyLabel={key}
        valueLabel={value}
        add={add}
        help={help}
      />
      {form.errors[field] !== undefined && (
        <div className="wrong" role="alert">
          {form.errors[field]}
        </div>
      )}
    </fieldset>
  );
  return (
    <EditorFrame
      {...frame}
      act={act}
      above={<Crumbs {...BACK} />}
      cancel={cancel}
      news={restored && <Unsaved {...restored} />}
    >
      <div className="parts">
        <Part title="Basics">
          <TextInput label="Name" {...form.getInputProps("name")} />
          <TextInput label="Description" {...form.getInputProps("description")} />
          <TextInput
            label="Run as"
            description="Whose rights the runs have: a user, or the application ID of a service principal. Empty: as it is, at first you."
            spellCheck={false}
            {...form.getInputProps("runAs")}
          />
        </Part>
        <TriggerPart form={form} />
        <Part title="Runs">
          <NumberInput
            label="Max concurrent runs"
            w={280}
            maw="100%"
            clampBehavior="none"
            allowDecimal={false}
            value={draft.concurrent ?? ""}
            error={form.errors.concurrent}
            onChange={(next) => form.setFieldValue("concurrent", typeof next === "number" ? next : undefined)}
          />
          <Checkbox
            label="Queue"
            description="Runs above the maximum wait. Without the queue they are skipped."
            {...form.getInputProps("queue", { type: "checkbox" })}
          />
        </Part>
        <ToldPart form={form} />
        <Part title="Job parameters">
          {pairs("parameters", "Job parameters", "Add a parameter", "A task reads one as {{job.parameters.NAME}}.", [
            "Parameter",
            "Default",
          ])}
        </Part>
        <Part title="Tags">
          {pairs("tags", "Tags", "Add a tag", "Job clusters get the job's tags.", ["Key", "Value"])}
        </Part>
        <Part title="Tasks and job clusters">
          <Suspense fallback={<Loader size="xs" role="status" aria-label="Loading" />}>
            <JsonEditor
              text={draft.work}
              label="Tasks and job clusters"
              height={320}
              go={go}
              onChange={(work) => form.setFieldValue("work", work)}
            />
          </Suspense>
          <AddTask work={draft.work} change={(work) => form.setFieldValue("work", work)} />
          {form.errors.work !== undefined && (
            <div className="wrong" role="alert">
              {form.errors.work}
            </div>
          )}
          <p className="help">
            The fields <code>tasks</code> and <code>job_clusters</code> of the Jobs API. The server checks them when you
            save. Esc, then Tab leaves the editor.
          </p>
        </Part>
      </div>
    </EditorFrame>
  );
}
