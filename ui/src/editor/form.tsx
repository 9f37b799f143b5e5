import { useQuery } from "@tanstack/react-query";
import { count } from "../lib/sizes";
import { AccessField } from "./access";
import { isPhoton } from "./begin";
import { checks, refusalQuery } from "./calls";
import { CheckField, SelectField, TextField } from "./fields";
import { Grants } from "./grants";
import { Libraries } from "./libraries";
import { LogFields, logOf } from "./logdelivery";
import { MapField } from "./mapfield";
import { NodeFields } from "./nodefields";
import { runtimeOptions } from "./offers";
import type { Part } from "./parts";
import { InitScripts } from "./scripts";
import { Section } from "./section";
import { read } from "./spec";
import { SpotFields, spotOf } from "./spot";
import { type Editor, useEditor } from "./state";

const size = (value: unknown) => (typeof value === "object" && value !== null ? Object.keys(value).length : 0);

const PARTS: Part[] = [
  { title: "Basics", fields: () => ["cluster_name", "policy_id"], Fields: Basics },
  { title: "Access", fields: () => ["data_security_mode", "single_user_name"], Fields: AccessField },
  { title: "Runtime", fields: () => ["spark_version", "runtime_engine"], Fields: RuntimeFields },
  {
    title: "Nodes",
    fields: () => [
      "node_type_id",
      "driver_node_type_id",
      "instance_pool_id",
      "num_workers",
      "autoscale",
      "autotermination_minutes",
    ],
    Fields: NodeFields,
  },
  {
    title: "Spot instances and disks",
    fields: ({ draft }) => [spotOf(draft).field, "enable_elastic_disk", "enable_local_disk_encryption"],
    holds: ({ draft }) => {
      const availability = read(draft, [spotOf(draft).field, "availability"]) ?? "on demand";
      const market = String(availability).startsWith("ON_DEMAND") ? "on demand" : String(availability);
      return draft.enable_elastic_disk === false ? `${market}, fixed disks` : market;
    },
    Fields: SpotFields,
  },
  {
    title: "Tags",
    fields: () => ["custom_tags"],
    holds: ({ draft }) => count(size(draft.custom_tags), "tag"),
    Fields: Tags,
  },
  {
    title: "Spark",
    fields: () => ["spark_conf", "spark_env_vars"],
    holds: ({ draft }) =>
      `${count(size(draft.spark_conf), "setting")}, ${count(size(draft.spark_env_vars), "variable")}`,
    Fields: SparkFields,
  },
  {
    title: "Log delivery",
    fields: () => ["cluster_log_conf"],
    holds: ({ draft }) => (draft.cluster_log_conf ? String(logOf(draft).destination ?? "") : "not delivered"),
    Fields: LogFields,
  },
  {
    title: "Init scripts",
    fields: () => ["init_scripts"],
    holds: ({ draft }) => count(draft.init_scripts?.length ?? 0, "script"),
    Fields: InitScripts,
  },
  {
    title: "Libraries",
    fields: () => ["libraries"],
    holds: ({ libraries }) => count(libraries.length, "library", "libraries"),
    Fields: Libraries,
  },
];

const PERMISSIONS: Part = {
  title: "Permissions",
  fields: () => [],
  holds: ({ grants = [] }) => count(grants.length, "permission"),
  Fields: Grants,
};

/** The parts of a form; permissions are those of a new cluster. */
export const partsOf = (editor: Editor) => (editor.grants === undefined ? PARTS : [...PARTS, PERMISSIONS]);

export function Form() {
  const editor = useEditor();
  return (
    <div className="parts">
      {partsOf(editor).map((each) => (
        <Section key={each.title} part={each} />
      ))}
      <p className="help">Everything else that the API knows is in the JSON tab.</p>
    </div>
  );
}

function Basics() {
  return (
    <>
      <TextField path={["cluster_name"]} label="Name" placeholder="Default: the cluster's id" />
      <PolicyField />
    </>
  );
}

function Tags() {
  return (
    <MapField
      name="custom_tags"
      label="Custom tags"
      keyLabel="Key"
      valueLabel="Value"
      add="Add a tag"
      help="Use tags to group spend."
    />
  );
}

function SparkFields() {
  return (
    <>
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
    </>
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

const NATIVE =
  "A native engine (DataFusion Comet) runs what it knows of a query. Its memory is taken from Java's heap.";

function RuntimeFields() {
  const { offers, draft, rules } = useEditor();
  const photon = useQuery(refusalQuery("runtime_engine", "PHOTON", draft)).data;
  const here = [...offers.runtimes.keys()].some(isPhoton) ? NATIVE : "This server runs it with Spark's own engine.";
  return (
    <>
      <SelectField path={["spark_version"]} label="Runtime version" data={runtimeOptions(offers, rules)} />
      <CheckField
        path={["runtime_engine"]}
        label="Use Photon acceleration"
        on="PHOTON"
        refusal={photon}
        help={checks() ? here : "Faster queries at a higher price."}
      />
    </>
  );
}
