import { money } from "../clusters/facts";
import { newestFirst } from "./begin";
import { type Group, SelectField } from "./fields";
import type { Rules } from "./policy";
import type { Path } from "./spec";
import { type Offers, useEditor } from "./state";

const gib = (mb: number) => `${(mb / 1024).toLocaleString(undefined, { maximumFractionDigits: 1 })} GiB`;

/** Those that a policy names, if it does. */
const allowed = (rules: Rules, field: string) => {
  const rule = rules.get(field);
  return rule?.type === "allowlist" && rule.values ? new Set(rule.values.map(String)) : undefined;
};

/** Node types by family, each with what it has and costs. `only`: those that a policy names; `keep`: those that are chosen. */
export function nodeTypeGroups(offers: Offers, keep: unknown[], only?: Set<string>): Group[] {
  const families = new Map<string, Group>();
  for (const each of offers.nodeTypes) {
    if (only !== undefined && !only.has(each.node_type_id)) continue;
    if (each.is_deprecated && !keep.includes(each.node_type_id)) continue;
    const family = families.get(each.category) ?? { group: each.category, items: [] };
    const price = offers.prices?.perHour.get(each.node_type_id);
    const facts = [
      each.node_type_id,
      `${each.num_cores} cores`,
      gib(each.memory_mb),
      (each.num_gpus ?? 0) > 0
        ? `${each.num_gpus} GPU${(each.num_gpus ?? 0) > 1 ? "s" : ""}${gpuOf(each.description)}`
        : "",
      price ? `${money(price, offers.prices?.currency ?? "USD")}/h` : "",
    ];
    family.items.push({ value: each.node_type_id, label: facts.filter(Boolean).join(" · ") });
    families.set(each.category, family);
  }
  return [...families.values()];
}

export function NodeTypeField({ path, label, clear }: { path: Path; label: string; clear?: string }) {
  const { offers, draft, rules } = useEditor();
  const only = allowed(rules, path.join("."));
  const chosen = [draft.node_type_id, draft.driver_node_type_id];
  const about = offers.nodeTypes.find(
    (each) => each.node_type_id === (path[0] === "node_type_id" ? chosen[0] : chosen[1]),
  );
  const disks = about?.node_instance_type;
  const local =
    (disks?.local_disks ?? 0) > 0 ? `${disks?.local_disks} × ${disks?.local_disk_size_gb} GB of local disk` : "";
  return (
    <SelectField
      path={path}
      label={label}
      clear={clear}
      data={nodeTypeGroups(offers, chosen, only)}
      help={local || undefined}
    />
  );
}

/** The model, which a description ends with: "8 cores, 61 GiB, 1 x V100". */
const gpuOf = (description: string) => {
  const model = /\d+ x (.+)$/.exec(description)?.[1];
  return model === undefined ? "" : ` (${model})`;
};

export function runtimeOptions(offers: Offers, rules: Rules): Group[] {
  const only = allowed(rules, "spark_version");
  const items = newestFirst(offers).map(([value, label]) => ({ value, label }));
  const named = [...(only ?? [])]
    .filter((each) => each.startsWith("auto:"))
    .map((each) => ({ value: each, label: each }));
  const fits = only === undefined || named.length > 0 ? items : items.filter((each) => only.has(each.value));
  return [
    { group: "Chosen by the policy", items: named },
    { group: "Long-term support", items: fits.filter((each) => each.label.includes("LTS")) },
    { group: "Other", items: fits.filter((each) => !each.label.includes("LTS")) },
  ].filter((each) => each.items.length > 0);
}

export const poolOptions = (offers: Offers) =>
  offers.pools.map((each) => ({
    value: each.instance_pool_id,
    label: `${each.instance_pool_name} · ${each.node_type_id} · ${each.stats.idle_count} idle`,
  }));
