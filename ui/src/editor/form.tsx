import { Radio, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { count } from "../lib/sizes";
import { checks, refusalQuery } from "./calls";
import { CheckField, Label, Locked, NumberField, SelectField, TextField, useField } from "./fields";
import { Grants } from "./grants";
import { Libraries } from "./libraries";
import { LogFields, logOf } from "./logdelivery";
import { MapField } from "./mapfield";
import { NodeTypeField, poolOptions, runtimeOptions } from "./offers";
import { InitScripts } from "./scripts";
import { Section } from "./section";
import { read, type Spec, write } from "./spec";
import { SpotFields, spotOf } from "./spot";
import { useEditor } from "./state";

const size = (value: unknown) => (typeof value === "object" && value !== null ? Object.keys(value).length : 0);

export function Form() {
  const editor = useEditor();
  const { draft } = editor;
  const spot = spotOf(draft);
  const availability = read(draft, [spot.field, "availability"]);
  return (
    <div className="parts">
      <Section title="Basics" fields={["cluster_name", "policy_id"]}>
        <TextField path={["cluster_name"]} label="Name" placeholder="Default: the cluster's id" />
        <PolicyField />
      </Section>
      <Section title="Access" fields={["data_security_mode", "single_user_name"]}>
        <AccessField />
      </Section>
      <Section title="Runtime" fields={["spark_version", "runtime_engine"]}>
        <RuntimeFields />
      </Section>
      <Section title="Nodes" fields={["node_type_id", "num_workers", "autoscale"]}>
        <NodeFields />
      </Section>
      <Section
        closed
        title="Spot instances and disks"
        holds={[
          typeof availability === "string" && availability.startsWith("ON_DEMAND")
            ? "on demand"
            : (availability ?? "on demand"),
          draft.enable_elastic_disk === false ? "fixed disks" : "",
        ]
          .filter(Boolean)
          .join(", ")}
        fields={[spot.field, "enable_elastic_disk", "enable_local_disk_encryption"]}
      >
        <SpotFields />
      </Section>
      <Section closed title="Tags" holds={count(size(draft.custom_tags), "tag")} fields={["custom_tags"]}>
        <MapField
          name="custom_tags"
          label="Custom tags"
          keyLabel="Key"
          valueLabel="Value"
          add="Add a tag"
          help="Use tags to group spend."
        />
      </Section>
      <Section
        closed
        title="Spark"
        holds={`${count(size(draft.spark_conf), "setting")}, ${count(size(draft.spark_env_vars), "variable")}`}
        fields={["spark_conf", "spark_env_vars"]}
      >
        <MapField
          name="spark_conf"
          label="Spark configuration"
          keyLabel="Setting"
          valueLabel="Value"
          add="Add a setting"
          help="You can paste several lines at once. Write {{secrets/scope/key}} for a secret."
        />
        <MapField
          name="spark_env_vars"
          label="Environment variables"
          keyLabel="Variable"
          valueLabel="Value"
          add="Add a variable"
          help="Set for every process on the nodes. You can paste several lines at once."
        />
      </Section>
      <Section
        closed
        title="Log delivery"
        holds={draft.cluster_log_conf ? String(logOf(draft).destination ?? "") : "not delivered"}
        fields={["cluster_log_conf"]}
      >
        <LogFields />
      </Section>
      <Section
        closed
        title="Init scripts"
        holds={count(draft.init_scripts?.length ?? 0, "script")}
        fields={["init_scripts"]}
      >
        <InitScripts />
      </Section>
      <Section
        closed
        title="Libraries"
        holds={count(editor.libraries.length, "library", "libraries")}
        fields={["libraries"]}
      >
        <Libraries />
      </Section>
      {editor.grants !== undefined && editor.setGrants !== undefined && (
        <Section closed title="Permissions" holds={count(editor.grants.length, "permission")} fields={[]}>
          <Grants grants={editor.grants} change={editor.setGrants} />
        </Section>
      )}
      <p className="help">Everything else that the API knows is in the JSON tab.</p>
    </div>
  );
}

function PolicyField() {
  const editor = useEditor();
  const policy = editor.offers.policies.find((each) => each.policy_id === editor.draft.policy_id);
  return (
    <SelectField
      path={["policy_id"]}
      label="Policy"
      clear="Unrestricted"
      choose={(id) => void editor.choosePolicy(id)}
      help={policy?.description || "A policy limits the configuration of its clusters."}
      data={editor.offers.policies.map((each) => ({ value: each.policy_id, label: each.name }))}
    />
  );
}

const MODES = [
  {
    mode: "SINGLE_USER",
    label: "Dedicated",
    help: "Only one user can run code.",
    also: ["DATA_SECURITY_MODE_DEDICATED", "LEGACY_SINGLE_USER", "LEGACY_SINGLE_USER_STANDARD"],
  },
  {
    mode: "USER_ISOLATION",
    label: "Standard",
    help: "Several users, isolated from each other.",
    also: ["DATA_SECURITY_MODE_STANDARD"],
  },
  { mode: "NONE", label: "No isolation shared", help: "Everyone who can attach shares one session.", also: [] },
] as const;

function AccessField() {
  const path = ["data_security_mode"];
  const editor = useEditor();
  const field = useField(path);
  const value = String(field.value ?? "");
  const known = MODES.find((each) => each.mode === value || (each.also as readonly string[]).includes(value));
  if (field.hidden) return null;
  const choose = (mode: string) =>
    editor.change((now) => {
      const next = write(now, path, mode);
      return mode === "SINGLE_USER" ? next : write(next, ["single_user_name"], undefined); // only that mode may name one
    });
  return (
    <>
      {field.lock !== undefined ? (
        <Locked path={path} label="Access mode" />
      ) : (
        <Radio.Group
          id={field.id}
          label={
            <Label path={path} restart={field.restart}>
              Access mode
            </Label>
          }
          description={field.hint}
          error={field.error}
          value={known?.mode ?? (value || "NONE")}
          onChange={choose}
        >
          <div className="choices">
            {MODES.map((each) => (
              <Radio key={each.mode} value={each.mode} label={each.label} description={each.help} />
            ))}
            {known === undefined && value !== "" && <Radio value={value} label={value} />}
          </div>
        </Radio.Group>
      )}
      {(known?.mode === "SINGLE_USER" || field.lock?.value === "SINGLE_USER" || editor.draft.single_user_name) && (
        <TextField path={["single_user_name"]} label="User" help="Only this user can run code on the cluster." />
      )}
    </>
  );
}

function RuntimeFields() {
  const { offers, draft, rules } = useEditor();
  const photon = useQuery(refusalQuery("runtime_engine", "PHOTON", draft)).data;
  return (
    <>
      <SelectField path={["spark_version"]} label="Runtime version" data={runtimeOptions(offers, rules)} />
      <CheckField
        path={["runtime_engine"]}
        label="Use Photon acceleration"
        on="PHOTON"
        refusal={photon}
        help={checks() ? "This server runs it with Spark's own engine." : "Faster queries at a higher price."}
      />
    </>
  );
}

type Sizing = "fixed" | "autoscale" | "single";
const PROFILE = "spark.databricks.cluster.profile";

export function sizingOf(spec: Spec): Sizing {
  if (spec.is_single_node || spec.spark_conf?.[PROFILE] === "singleNode") return "single";
  return spec.autoscale ? "autoscale" : "fixed";
}

/** The specification with the other kind of size; numbers are kept where they can be. */
function resized(spec: Spec, to: Sizing): Spec {
  const workers = Math.max(1, spec.num_workers ?? spec.autoscale?.min_workers ?? 1);
  let next = spec;
  if (sizingOf(spec) === "single") {
    for (const path of [["is_single_node"], ["kind"], ["spark_conf", PROFILE], ["spark_conf", "spark.master"]])
      next = write(next, path, undefined);
    next = write(next, ["custom_tags", "ResourceClass"], undefined);
  }
  next = write(
    next,
    ["autoscale"],
    to === "autoscale" ? { min_workers: workers, max_workers: Math.max(workers * 4, 4) } : undefined,
  );
  next = write(next, ["num_workers"], to === "fixed" ? workers : undefined);
  return to === "single" ? write(write(next, ["is_single_node"], true), ["kind"], "CLASSIC_PREVIEW") : next;
}

function NodeFields() {
  const editor = useEditor();
  const { draft } = editor;
  const sizing = sizingOf(draft);
  const locks = (editor.verdict?.locks ?? []).map((each) => each.field.split(".")[0]);
  const fixedScale = locks.includes("autoscale");
  const pooled = draft.instance_pool_id != null;
  const choosePool = (id: string | undefined) =>
    editor.change((now) => {
      const was = editor.offers.pools.find((each) => each.instance_pool_id === now.instance_pool_id);
      const types = ["node_type_id", "driver_node_type_id"];
      const bare = [...types, "driver_instance_pool_id"].reduce((into, name) => write(into, [name], undefined), now);
      const next = write(bare, ["instance_pool_id"], id); // a pool decides the node types
      return id === undefined ? write(next, ["node_type_id"], was?.node_type_id) : next;
    });
  return (
    <>
      <PoolField choose={choosePool} />
      {!pooled && <NodeTypeField path={["node_type_id"]} label={sizing === "single" ? "Node type" : "Worker type"} />}
      {!pooled && sizing !== "single" && (
        <NodeTypeField path={["driver_node_type_id"]} label="Driver type" clear="Same as worker" />
      )}
      {pooled && (
        <SelectField
          path={["driver_instance_pool_id"]}
          label="Driver's pool"
          clear="Same as the workers'"
          data={poolOptions(editor.offers)}
        />
      )}
      {!fixedScale && !locks.includes("num_workers") && !locks.includes("is_single_node") && (
        <div>
          <div className="label">Size</div>
          <SegmentedControl
            aria-label="Size"
            size="xs"
            value={sizing}
            onChange={(to) => editor.change((now) => resized(now, to as Sizing))}
            data={[
              { value: "fixed", label: "Fixed" },
              { value: "autoscale", label: "Autoscaling" },
              { value: "single", label: "Single node" },
            ]}
          />
        </div>
      )}
      {sizing === "autoscale" || fixedScale ? (
        <div className="beside">
          <NumberField path={["autoscale", "min_workers"]} label="Min workers" min={0} w={140} />
          <NumberField path={["autoscale", "max_workers"]} label="Max workers" min={0} w={140} />
        </div>
      ) : sizing === "fixed" ? (
        <NumberField path={["num_workers"]} label="Workers" min={0} w={140} />
      ) : (
        <p className="help">One node: the driver runs the tasks as well.</p>
      )}
      <AutoTermination />
    </>
  );
}

function PoolField({ choose }: { choose: (id: string | undefined) => void }) {
  const editor = useEditor();
  return (
    <SelectField
      path={["instance_pool_id"]}
      label="Pool"
      clear="None"
      choose={choose}
      help="The pool sets the node type. Its idle instances make starts faster."
      data={poolOptions(editor.offers)}
    />
  );
}

function AutoTermination() {
  const path = ["autotermination_minutes"];
  const field = useField(path);
  const minutes = field.value ?? field.effective;
  return (
    <NumberField
      path={path}
      label="Terminate after"
      suffix=" minutes"
      min={0}
      help={minutes === 0 ? "The cluster runs until someone terminates it." : "Minutes without activity. 0: never."}
    />
  );
}
