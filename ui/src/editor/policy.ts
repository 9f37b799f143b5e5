import type { Policy } from "../api/offers";
import type { Verdict } from "./calls";
import { isMap, type Path, read, type Spec, same, write } from "./spec";

/** One rule of a policy, as far as it helps to fill in a form. What it decides is the server's business. */
export interface Rule {
  type?: string;
  values?: unknown[];
  pattern?: string;
  minValue?: number;
  maxValue?: number;
}
export type Rules = Map<string, Rule>;

export function rulesOf(policy: Policy | undefined): Rules {
  try {
    return new Map(Object.entries(JSON.parse(policy?.definition || "{}") as Record<string, Rule>));
  } catch {
    return new Map();
  }
}

/** What the policy says about a field, in a few words; undefined if nothing helps. */
export function hint(rule: Rule | undefined): string | undefined {
  switch (rule?.type) {
    case "allowlist":
      return `Policy: ${(rule.values ?? []).map(String).join(", ")}`;
    case "blocklist":
      return `Policy: not ${(rule.values ?? []).map(String).join(", ")}`;
    case "regex":
      return `Policy: matches ${rule.pattern}`;
    case "range":
      if (rule.minValue === undefined) return `Policy: at most ${rule.maxValue}`;
      return rule.maxValue === undefined
        ? `Policy: at least ${rule.minValue}`
        : `Policy: ${rule.minValue} to ${rule.maxValue}`;
    default:
      return undefined;
  }
}

/** The keys of a field's name as policies and errors write it: in maps, all after the first dot is the key. */
export function pathOf(field: string): Path {
  const [top = "", ...rest] = field.split(".");
  return isMap(top) && rest.length > 0 ? [top, rest.join(".")] : [top, ...rest];
}

/** The specification without its own values for what the policy decides, and without defaults of this page that it refuses: the
 * policy's take their place. */
export function yielded(spec: Spec, verdict: Verdict, prefilled: Spec): Spec {
  let found = spec;
  for (const lock of verdict.locks) found = write(found, pathOf(lock.field), undefined);
  for (const { field } of verdict.errors) {
    const [top = ""] = pathOf(field);
    const ours = read(prefilled, [String(top)]);
    if (ours !== undefined && same(ours, read(found, [String(top)]))) found = write(found, [String(top)], undefined);
  }
  return found;
}
