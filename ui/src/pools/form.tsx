import "./pools.css";
import { NumberInput, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, body } from "../api/client";
import { nodeTypesQuery, poolQuery, refreshPools } from "../api/offers";
import { runtimesQuery } from "../api/queries";
import { money } from "../clusters/facts";
import { beginning, newestFirst } from "../editor/begin";
import { EditorFrame, Part } from "../editor/frame";
import { mapOf, pairsOf } from "../editor/pairing";
import { Pairs } from "../editor/pairs";
import { useSaving } from "../editor/saving";
import { useOffers } from "../editor/state";
import { TypePicker } from "../editor/typepicker";
import { Unsaved } from "../editor/unsaved";
import { useUser } from "../editor/user";
import { Crumbs } from "../kit/crumbs";
import { BeingRead } from "../kit/objectpage";
import { useReturn } from "../kit/return";
import { useTitle } from "../kit/title";
import { Trouble } from "../kit/trouble";
import { Waiting } from "../kit/waiting";
import { type Draft, draftOf, inputOf, wanted } from "./draft";

export function CreatePoolPage() {
  const offers = useOffers();
  const ready = [useQuery(nodeTypesQuery), useQuery(runtimesQuery)];
  const failed = ready.find((each) => each.isError && each.data === undefined);
  const user = useUser();
  useTitle("Create pool");
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  if (user === undefined || ready.some((each) => each.data === undefined))
    return (
      <div className="content">
        <Waiting what="Reading what can be chosen" />
      </div>
    );
  const usual = beginning(offers, user);
  const initial: Draft = {
    name: "",
    nodeType: usual.node_type_id ?? "",
    runtime: usual.spark_version ?? "",
    least: 1,
    most: 10,
    minutes: undefined,
    tags: [],
  };
  return <Form user={user} initial={initial} />;
}

export function EditPoolPage() {
  const { id } = useParams({ from: "/compute/pools/$id/edit" });
  const asked = useQuery(poolQuery(id));
  const user = useUser();
  const name = asked.data?.instance_pool_name ?? id;
  useTitle(`Edit ${name}`);
  if (asked.data === undefined || user === undefined)
    return <BeingRead tab="pools" label="Pools" noun="pool" query={asked} />;
  return <Form key={id} user={user} id={id} initial={draftOf(asked.data)} />;
}

function Form({ user, id, initial: given }: { user: string; id?: string; initial: Draft }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const offers = useOffers();
  const [initial] = useState(given); // a later answer of the server is for the one that compares
  const form = useForm({ initialValues: initial });
  const draft = form.values;
  const fields = wanted(draft);
  const saving = useSaving({
    noun: "pool",
    id,
    user,
    initial,
    draft,
    setDraft: (next) => form.setValues({ ...next, tags: pairsOf(mapOf(next.tags)) }),
    name: draft.name,
    fieldsOf: wanted,
    read: async (pool) => wanted(draftOf(await queries.fetchQuery({ ...poolQuery(pool), staleTime: 0 }))),
    create: async () => (await body(api.POST("/api/2.0/instance-pools/create", { body: fields }))).instance_pool_id,
    edit: (instance_pool_id) => {
      const { preloaded_spark_versions: _, ...changed } = fields;
      return body(api.POST("/api/2.0/instance-pools/edit", { body: { ...changed, instance_pool_id } }));
    },
    done: async (saved) => {
      void refreshPools(queries, [saved]);
      await navigate({ to: "/compute/pools/$id", params: { id: saved }, search: {}, ignoreBlocker: true });
    },
    placed: (message) => {
      const field = inputOf(message);
      if (field !== undefined) form.setFieldError(field, message);
      return field !== undefined;
    },
  });
  const act = () => {
    form.clearErrors();
    saving.act();
  };
  const cancel = useReturn(() =>
    id === undefined
      ? navigate({ to: "/compute", search: { tab: "pools" } })
      : navigate({ to: "/compute/pools/$id", params: { id }, search: {} }),
  );
  const { restored, ...frame } = saving;
  const fixed = id !== undefined; // node type and runtime are the pool's for good
  return (
    <EditorFrame
      {...frame}
      act={act}
      above={<Crumbs tab="pools" label="Pools" />}
      cancel={cancel}
      news={restored && <Unsaved {...restored} />}
    >
      <div className="editor-columns">
        <div className="parts">
          <Part title="Basics">
            <TextInput label="Name" {...form.getInputProps("name")} />
            <TypePicker
              label="Node type"
              name="Node type"
              description={
                fixed ? "Cannot be changed. To use another node type, create another pool." : "Used for every instance."
              }
              disabled={fixed}
              offers={offers}
              keep={[draft.nodeType]}
              value={draft.nodeType || undefined}
              error={form.errors.nodeType}
              choose={(nodeType) => form.setFieldValue("nodeType", nodeType ?? "")}
            />
            <Select
              label="Preloaded runtime"
              description={
                fixed
                  ? "Cannot be changed."
                  : "Idle instances keep this runtime warm, so clusters with it start faster."
              }
              placeholder="None"
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
              The minimum is kept ready in addition to the instances in use. The capacity counts idle, used and pending
              instances.
            </p>
            <Figure
              label="Terminate idle instances after"
              suffix=" minutes"
              placeholder="60 minutes"
              description="Applies to idle instances above the minimum. 0: at once."
              value={draft.minutes}
              error={form.errors.minutes}
              set={(minutes) => form.setFieldValue("minutes", minutes)}
            />
          </Part>
          <Part title="Tags">
            <fieldset className="map" aria-label="Tags">
              <Pairs
                pairs={draft.tags}
                change={(make) => form.setFieldValue("tags", make)}
                keyLabel="Key"
                valueLabel="Value"
                add="Add a tag"
                help="Clusters of the pool inherit these tags."
              />
              {form.errors.tags !== undefined && <div className="wrong">{form.errors.tags}</div>}
            </fieldset>
          </Part>
        </div>
        <Summary draft={draft} />
      </div>
    </EditorFrame>
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
      <p className="soft">Idle instances cost the same as instances in use.</p>
    </aside>
  );
}
