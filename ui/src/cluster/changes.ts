import type { Spec } from "../editor/spec";

/** What is typed in place of a value, as the fields of a specification; null if it is not one. The server checks the rest. */
export type Read = (text: string) => Spec | null;

const WHOLE = /^\d+$/;

export const readName: Read = (text) => (text.trim() === "" ? null : { cluster_name: text.trim() });

/** Minutes; 0, "never" or nothing: it does not terminate by itself. */
export const readMinutes: Read = (text) => {
  const typed = text.trim().toLowerCase();
  if (typed === "" || typed === "never") return { autotermination_minutes: 0 };
  return WHOLE.test(typed) ? { autotermination_minutes: Number(typed) } : null;
};

/** "4", or the range "1-8". */
export const readSize: Read = (text) => {
  const typed = text.replaceAll(/\s/g, "");
  if (WHOLE.test(typed)) return { num_workers: Number(typed), autoscale: undefined };
  const range = /^(\d+)(?:-|–|\.\.|to)(\d+)$/.exec(typed);
  if (range === null) return null;
  return { autoscale: { min_workers: Number(range[1]), max_workers: Number(range[2]) }, num_workers: undefined };
};

/** The tags with another value of one; an empty value takes the tag away. */
export const readTag =
  (tags: Record<string, string>, key: string): Read =>
  (text) => {
    const { [key]: _, ...others } = tags;
    return { custom_tags: text.trim() === "" ? others : { ...tags, [key]: text.trim() } };
  };

/** The tags with one more, typed as "key: value" or "key=value". */
export const readNewTag =
  (tags: Record<string, string>): Read =>
  (text) => {
    const found = /^\s*([^:=]*[^:=\s])\s*[:=]\s*(.*?)\s*$/.exec(text);
    return found === null ? null : { custom_tags: { ...tags, [found[1] ?? ""]: found[2] ?? "" } };
  };

/** The specification with the changes; what is undefined is left out. */
export const changed = (spec: Spec, changes: Spec): Spec =>
  Object.fromEntries(Object.entries({ ...spec, ...changes }).filter(([, value]) => value !== undefined)) as Spec;
