import type { Policy } from "../api/offers";
import type { components } from "../api/schema";
import type { Library } from "../editor/calls";
import { filled } from "../editor/librarykinds";
import { pretty } from "../lib/json";
import type { Source } from "./calls";

/** A policy as its editor has it. */
export interface Draft {
  name: string;
  description: string;
  family: string; // "": a definition of its own
  definition: string;
  overrides: string;
  most: number | undefined;
  libraries: Library[];
}

export const draftOf = (policy: Policy): Draft => ({
  name: policy.name,
  description: policy.description ?? "",
  family: policy.policy_family_id ?? "",
  definition: policy.policy_family_id ? "" : pretty(policy.definition),
  overrides: policy.policy_family_id ? pretty(policy.policy_family_definition_overrides || "{}") : "{}",
  most: policy.max_clusters_per_user ?? undefined,
  libraries: (policy.libraries ?? []) as Library[],
});

export const sourceOf = (draft: Draft): Source => ({
  definition: draft.family ? null : draft.definition,
  policy_family_id: draft.family || null,
  policy_family_definition_overrides: draft.family ? draft.overrides || null : null,
});

/** What is saved of a draft. */
export const wanted = (draft: Draft) => ({
  name: draft.name,
  description: draft.description || null,
  max_clusters_per_user: draft.most ?? null,
  libraries: filled(draft.libraries) as components["schemas"]["Library"][],
  ...sourceOf(draft),
});
