import { useMemo } from "react";
import { newestFirst } from "./begin";
import { type Group, Locked, useInput } from "./fields";
import type { Rules } from "./policy";
import type { Path } from "./spec";
import { type Offers, useEditor } from "./state";
import { TypePicker } from "./typepicker";

/** Those that a policy names, if it does. */
const allowed = (rules: Rules, field: string) => {
  const rule = rules.get(field);
  return rule?.type === "allowlist" && rule.values ? new Set(rule.values.map(String)) : undefined;
};

export function NodeTypeField({ path, label, clear }: { path: Path; label: string; clear?: string }) {
  const { offers, draft, rules } = useEditor();
  const { field, props } = useInput({ path, label, help: undefined });
  const { node_type_id, driver_node_type_id } = draft;
  const keep = useMemo(() => [node_type_id, driver_node_type_id], [node_type_id, driver_node_type_id]);
  const only = useMemo(() => allowed(rules, path.join(".")), [rules, path]);
  if (field.hidden) return null;
  if (field.lock !== undefined) return <Locked path={path} label={label} />;
  const value = typeof field.value === "string" ? field.value : undefined;
  const disks = offers.nodeTypes.find((each) => each.node_type_id === value)?.node_instance_type;
  const local =
    (disks?.local_disks ?? 0) > 0 ? `${disks?.local_disks} × ${disks?.local_disk_size_gb} GB of local disk` : undefined;
  const description = [props.description, local].filter(Boolean).join(". ") || undefined;
  return (
    <TypePicker
      {...props}
      name={label}
      description={description}
      offers={offers}
      keep={keep}
      only={only}
      clear={clear}
      placeholder={typeof field.effective === "string" ? `Default: ${field.effective}` : undefined}
      value={value}
      choose={field.set}
    />
  );
}

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
