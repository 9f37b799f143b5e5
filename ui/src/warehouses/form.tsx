import "../pools/pools.css";
import { NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, body } from "../api/client";
import { nodeTypesQuery } from "../api/offers";
import { pricesQuery, runtimesQuery, sparkVersionsOf } from "../api/queries";
import { type Warehouse, warehouseConfigQuery, warehouseQuery } from "../api/warehouses";
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
import { count } from "../lib/sizes";
import { BEGINNING, CHANNELS, type Draft, draftOf, inputOf, nodesOf, SIZES, SPOT, wanted } from "./draft";
import { costText, sizeText } from "./facts";

export function CreateWarehousePage() {
  const ready = [useQuery(nodeTypesQuery), useQuery(warehouseConfigQuery)] as const;
  const failed = ready.find((each) => each.isError && each.data === undefined);
  const user = useUser();
  useTitle("Create SQL warehouse");
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  const [types, config] = ready;
  if (user === undefined || types.data === undefined || config.data === undefined)
    return (
      <div className="content">
        <Waiting what="Reading what can be chosen" />
      </div>
    );
  const channel = config.data.channel?.name ?? BEGINNING.channel;
  return <Form user={user} initial={{ ...BEGINNING, channel, nodeType: config.data.node_type_id ?? "" }} />;
}

export function EditWarehousePage() {
  const { id } = useParams({ from: "/compute/warehouses/$id/edit" });
  const asked = useQuery(warehouseQuery(id));
  const user = useUser();
  useTitle(`Edit ${asked.data?.name ?? id}`);
  if (asked.data === undefined || user === undefined)
    return <BeingRead tab="sql" label="SQL warehouses" noun="SQL warehouse" query={asked} />;
  return <Form key={id} user={user} warehouse={asked.data} initial={draftOf(asked.data)} />;
}

const options = (labels: Record<string, string>) => Object.entries(labels).map(([value, label]) => ({ value, label }));

function Form({ user, warehouse, initial: given }: { user: string; warehouse?: Warehouse; initial: Draft }) {
  const id = warehouse?.id;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const offers = useOffers();
  const [initial] = useState(given); // a later answer of the server is for the one that compares
  const form = useForm({ initialValues: initial });
  const draft = form.values;
  const fields = wanted(draft);
  const saving = useSaving({
    noun: "SQL warehouse",
    id,
    user,
    initial,
    draft,
    setDraft: (next) => form.setValues({ ...next, tags: pairsOf(mapOf(next.tags)) }),
    name: draft.name,
    fieldsOf: wanted,
    read: async (of) => wanted(draftOf(await queries.fetchQuery({ ...warehouseQuery(of), staleTime: 0 }))),
    create: async () => (await body(api.POST("/api/2.0/sql/warehouses", { body: fields }))).id,
    edit: (of) =>
      body(
        api.POST("/api/2.0/sql/warehouses/{id}/edit", {
          params: { path: { id: of } },
          body: { ...fields, id: of },
          parseAs: "text",
        }),
      ),
    done: async (saved) => {
      void queries.invalidateQueries({ queryKey: ["warehouses"] });
      void queries.invalidateQueries({ queryKey: ["warehouse", saved] });
      await navigate({ to: "/compute/warehouses/$id", params: { id: saved }, search: {}, ignoreBlocker: true });
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
      ? navigate({ to: "/compute", search: { tab: "sql" } })
      : navigate({ to: "/compute/warehouses/$id", params: { id }, search: {} }),
  );
  const { restored, ...frame } = saving;
  return (
    <EditorFrame
      {...frame}
      act={act}
      above={<Crumbs tab="sql" label="SQL warehouses" />}
      cancel={cancel}
      news={restored && <Unsaved {...restored} />}
    >
      <div className="editor-columns">
        <div className="parts">
          <Part title="Basics">
            <TextInput label="Name" {...form.getInputProps("name")} />
            <div className="beside">
              <NativeSelect
                label="Size"
                w={220}
                maw="100%"
                data={Object.keys(SIZES).map((value) => ({ value, label: sizeText(value) }))}
                {...form.getInputProps("size")}
              />
              <NumberInput
                label="Auto stop after"
                suffix=" minutes"
                description="Minutes without a statement. 0: never; otherwise at least 10."
                w={280}
                maw="100%"
                clampBehavior="none"
                allowDecimal={false}
                value={draft.minutes ?? ""}
                error={form.errors.minutes}
                onChange={(next) => form.setFieldValue("minutes", typeof next === "number" ? next : undefined)}
              />
            </div>
          </Part>
          <Part title="Nodes">
            <TypePicker
              label="Node type"
              name="Node type"
              description="Used for the driver and every worker."
              offers={offers}
              keep={[draft.nodeType]}
              value={draft.nodeType || undefined}
              error={form.errors.nodeType}
              choose={(nodeType) => form.setFieldValue("nodeType", nodeType ?? "")}
            />
            <NativeSelect
              label="Channel"
              description="Current: the newest LTS runtime on Spark 4. Preview: the newest runtime."
              w={280}
              maw="100%"
              data={options(CHANNELS)}
              {...form.getInputProps("channel")}
            />
            <NativeSelect
              label="Spot instance policy"
              description="Cost optimized: workers from the spot market, where a provider has one."
              w={280}
              maw="100%"
              data={options(SPOT)}
              {...form.getInputProps("spot")}
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
                help="Spend is grouped by tags."
              />
              {form.errors.tags !== undefined && <div className="wrong">{form.errors.tags}</div>}
            </fieldset>
          </Part>
        </div>
        <Summary draft={draft} warehouse={warehouse} />
      </div>
    </EditorFrame>
  );
}

function Summary({ draft, warehouse }: { draft: Draft; warehouse: Warehouse | undefined }) {
  const runtimes = useQuery(runtimesQuery).data;
  const prices = useQuery(pricesQuery).data;
  const { nodeTypes } = useOffers();
  const type = nodeTypes.find((each) => each.node_type_id === draft.nodeType);
  const nodes = nodesOf(draft.size);
  const gib = type && Math.round((type.memory_mb * (nodes ?? 0)) / 1024);
  const facts: [string, string][] = [
    ["Nodes", nodes === undefined ? "–" : `A driver and ${count(nodes - 1, "worker")}`],
    ["Cores and memory", type && nodes ? `${type.num_cores * nodes} cores, ${gib} GiB` : "–"],
    ["While it runs, per hour", costText(draft.size, draft.nodeType, prices) || "–"],
    ...(warehouse ? [["Runtime now", sparkVersionsOf(runtimes, warehouse.spark_version)] as [string, string]] : []),
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
      <p className="soft">
        {warehouse?.state === "RUNNING"
          ? "Saving restarts the warehouse, unless only its name, tags or auto stop change."
          : "It costs nothing while it is stopped. Permissions are given on its page."}
      </p>
    </aside>
  );
}
