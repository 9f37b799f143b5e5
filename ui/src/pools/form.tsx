import "../editor/editor.css";
import "./pools.css";
import { Alert, Button, Group, NumberInput, Select, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { api, body, words } from "../api/client";
import { nodeTypesQuery, type Pool, poolQuery, refreshPools } from "../api/offers";
import { runtimesQuery } from "../api/queries";
import { Crumbs } from "../app/crumbs";
import { useLeaveGuard, useMainKey } from "../app/leaving";
import { toast } from "../app/toasts";
import { Trouble } from "../app/trouble";
import { Waiting } from "../app/waiting";
import { money } from "../compute/facts";
import { newestFirst } from "../editor/begin";
import { nodeTypeGroups } from "../editor/offers";
import { same } from "../editor/spec";
import { useOffers } from "../editor/state";
import { runtimeOf } from "./facts";
import { mapOf, type Pair, Pairs, pairsOf } from "./pairs";

interface Draft {
  name: string;
  nodeType: string;
  runtime: string;
  least: number | undefined;
  most: number | undefined;
  minutes: number | undefined;
  tags: Pair[];
}

const NAMED = /^([a-z_]+)/; // the field with which the server's messages begin
const FIELDS: Record<string, keyof Draft> = {
  instance_pool_name: "name",
  node_type_id: "nodeType",
  preloaded_spark_versions: "runtime",
  min_idle_instances: "least",
  max_capacity: "most",
  idle_instance_autotermination_minutes: "minutes",
  custom_tags: "tags",
};

const draftOf = (pool: Pool): Draft => ({
  name: pool.instance_pool_name,
  nodeType: pool.node_type_id,
  runtime: runtimeOf(pool),
  least: pool.min_idle_instances ?? undefined,
  most: pool.max_capacity ?? undefined,
  minutes: pool.idle_instance_autotermination_minutes ?? undefined,
  tags: pairsOf(pool.custom_tags),
});

/** What is saved of a draft. */
const wanted = (draft: Draft) => ({
  instance_pool_name: draft.name,
  node_type_id: draft.nodeType,
  min_idle_instances: draft.least ?? null,
  max_capacity: draft.most ?? null,
  idle_instance_autotermination_minutes: draft.minutes ?? null,
  custom_tags: mapOf(draft.tags),
});

export function CreatePoolPage() {
  const offers = useOffers();
  const ready = [useQuery(nodeTypesQuery), useQuery(runtimesQuery)];
  const failed = ready.find((each) => each.isError && each.data === undefined);
  useEffect(() => {
    document.title = "Create pool - Brickyard";
  }, []);
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  if (ready.some((each) => each.data === undefined))
    return (
      <div className="content">
        <Waiting what="Reading what can be chosen" />
      </div>
    );
  const runtimes = newestFirst(offers);
  const runtime = runtimes.find(([, label]) => label.includes("LTS")) ?? runtimes[0];
  const usual = offers.nodeTypes.filter((each) => !each.is_deprecated && each.num_gpus === 0);
  const initial: Draft = {
    name: "",
    nodeType: (usual.find((each) => each.num_cores >= 2) ?? usual[0])?.node_type_id ?? "",
    runtime: runtime?.[0] ?? "",
    least: 1,
    most: 10,
    minutes: undefined,
    tags: [],
  };
  return <Form initial={initial} />;
}

export function EditPoolPage() {
  const { id } = useParams({ from: "/compute/pools/$id/edit" });
  const asked = useQuery(poolQuery(id));
  const name = asked.data?.instance_pool_name ?? id;
  useEffect(() => {
    document.title = `Edit ${name} - Brickyard`;
  }, [name]);
  if (asked.data === undefined)
    return (
      <div className="content">
        <Crumbs tab="pools" label="Pools" />
        {asked.isError ? (
          <Trouble error={asked.error} retry={() => void asked.refetch()} />
        ) : (
          <Waiting what="Reading the pool" />
        )}
      </div>
    );
  return <Form key={id} id={id} initial={draftOf(asked.data)} />;
}

function Form({ id, initial }: { id?: string; initial: Draft }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const offers = useOffers();
  const [first] = useState(initial);
  const [base, setBase] = useState(() => wanted(initial)); // what is saved, as far as the page knows
  const form = useForm({ initialValues: initial });
  const draft = form.values;
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(""); // of no field in particular
  const dirty = !same(wanted(draft), wanted(first)) || draft.runtime !== first.runtime;
  useLeaveGuard(dirty);
  useMainKey();
  const back = () =>
    id === undefined
      ? navigate({ to: "/compute", search: { tab: "pools" } })
      : navigate({ to: "/compute/pools/$id", params: { id }, search: {} });

  /** Saves, and answers with the pool's id; undefined if somebody else has changed it since it was read. */
  const save = async (): Promise<string | undefined> => {
    const fields = wanted(draft);
    if (id === undefined) {
      const preloaded_spark_versions = draft.runtime ? [draft.runtime] : null;
      const asked = api.POST("/api/2.0/instance-pools/create", { body: { ...fields, preloaded_spark_versions } });
      return (await body(asked)).instance_pool_id;
    }
    const now = wanted(draftOf(await queries.fetchQuery({ ...poolQuery(id), staleTime: 0 })));
    if (!same(now, base)) {
      setBase(now);
      return undefined;
    }
    await body(api.POST("/api/2.0/instance-pools/edit", { body: { ...fields, instance_pool_id: id } }));
    return id;
  };
  const act = async () => {
    setBusy(true);
    setProblem("");
    form.clearErrors();
    try {
      const saved = await save();
      if (saved === undefined) {
        setProblem("Somebody else has changed this pool meanwhile. Save again to replace what they saved.");
        return;
      }
      void refreshPools(queries, [saved]);
      toast(`${draft.name} is ${id === undefined ? "created" : "saved"}.`);
      await navigate({ to: "/compute/pools/$id", params: { id: saved }, search: {}, ignoreBlocker: true });
    } catch (error) {
      const field = FIELDS[NAMED.exec(words(error))?.[1] ?? ""];
      if (field === undefined) setProblem(words(error));
      else form.setFieldError(field, words(error));
    } finally {
      setBusy(false);
    }
  };
  const fixed = id !== undefined; // node type and runtime are the pool's for good
  return (
    <div className="content editor">
      <div className="editor-head">
        <div className="editor-title">
          <Crumbs tab="pools" label="Pools" />
          <Title order={1} size="h3">
            {id === undefined ? "Create pool" : `Edit ${first.name}`}
          </Title>
        </div>
        <Group gap={8} wrap="nowrap">
          <Button variant="default" onClick={() => void back()}>
            Cancel
          </Button>
          <Button data-main-action loading={busy} onClick={() => void act()}>
            {id === undefined ? "Create pool" : "Save"}
          </Button>
        </Group>
      </div>
      {problem !== "" && (
        <Alert variant="default" className="notice bad" role="alert" title="It was not saved">
          {problem}
        </Alert>
      )}
      <div className="editor-columns">
        <div className="parts">
          <Part title="Basics">
            <TextInput label="Name" {...form.getInputProps("name")} />
            <Select
              label="Node type"
              description={fixed ? "For good: create another pool for another node type." : "Of every instance."}
              searchable
              allowDeselect={false}
              disabled={fixed}
              maxDropdownHeight={320}
              data={nodeTypeGroups(offers, [draft.nodeType])}
              value={draft.nodeType || null}
              error={form.errors.nodeType}
              onChange={(nodeType) => form.setFieldValue("nodeType", nodeType ?? "")}
            />
            <Select
              label="Preloaded runtime"
              description={
                fixed ? "For good." : "Idle instances are warm: clusters of this runtime start without starting Spark."
              }
              placeholder="None: instances are idle, and not warm"
              searchable
              clearable={!fixed}
              clearButtonProps={{ "aria-label": "Clear the preloaded runtime" }}
              disabled={fixed}
              data={newestFirst(offers).map(([value, label]) => ({ value, label }))}
              value={draft.runtime || null}
              error={form.errors.runtime}
              onChange={(runtime) => form.setFieldValue("runtime", runtime ?? "")}
            />
          </Part>
          <Part title="Size">
            <div className="beside">
              <Figure
                label="Min idle instances"
                value={draft.least}
                error={form.errors.least}
                set={(least) => form.setFieldValue("least", least)}
              />
              <Figure
                label="Max capacity"
                value={draft.most}
                placeholder="No limit"
                error={form.errors.most}
                set={(most) => form.setFieldValue("most", most)}
              />
            </div>
            <p className="help">
              The minimum is kept ready in addition to what is in use. The capacity counts idle, used and pending
              instances.
            </p>
            <Figure
              label="Idle instances end after"
              suffix=" minutes"
              placeholder="60 minutes"
              description="Only those beyond the minimum. 0: at once."
              value={draft.minutes}
              error={form.errors.minutes}
              set={(minutes) => form.setFieldValue("minutes", minutes)}
            />
          </Part>
          <Part title="Tags">
            <Pairs pairs={draft.tags} change={(tags) => form.setFieldValue("tags", tags)} error={form.errors.tags} />
          </Part>
        </div>
        <Summary draft={draft} />
      </div>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="part" aria-label={title}>
      <h2>{title}</h2>
      <div className="part-body">{children}</div>
    </section>
  );
}

function Figure({
  value,
  set,
  ...rest
}: {
  label: string;
  value: number | undefined;
  set: (value: number | undefined) => void;
  error?: ReactNode;
  suffix?: string;
  placeholder?: string;
  description?: string;
}) {
  return (
    <NumberInput
      {...rest}
      w={220}
      maw="100%"
      clampBehavior="none"
      allowDecimal={false}
      value={value ?? ""}
      onChange={(next) => set(typeof next === "number" ? next : undefined)}
    />
  );
}

function Summary({ draft }: { draft: Draft }) {
  const { prices, nodeTypes } = useOffers();
  const type = nodeTypes.find((each) => each.node_type_id === draft.nodeType);
  const price = prices?.perHour.get(draft.nodeType);
  const cost = (count: number | undefined) =>
    price === undefined || count === undefined ? "–" : money(price * count, prices?.currency ?? "USD");
  const facts: [string, string][] = [
    ["Per instance", type ? `${type.num_cores} cores, ${Math.round(type.memory_mb / 1024)} GiB` : "–"],
    ["Idle, per hour", cost(draft.least ?? 0)],
    ["Full, per hour", draft.most === undefined ? "no limit" : cost(draft.most)],
  ];
  return (
    <aside className="summary" aria-label="Summary">
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p className="soft">Instances cost the same idle and in use: they run all the time.</p>
    </aside>
  );
}
