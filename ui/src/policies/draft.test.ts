import { expect, test } from "vitest";
import type { Policy } from "../api/offers";
import { draftOf, wanted } from "./draft";

const policy = (more: Partial<Policy>) => ({ policy_id: "1", name: "p", definition: '{"a":{}}', ...more }) as Policy;

test("a policy's own definition is kept, and a family's is not copied", () => {
  expect(wanted(draftOf(policy({ max_clusters_per_user: 2 })))).toEqual({
    name: "p",
    description: null,
    max_clusters_per_user: 2,
    libraries: [],
    definition: '{\n  "a": {}\n}',
    policy_family_id: null,
    policy_family_definition_overrides: null,
  });
  const family = wanted(draftOf(policy({ policy_family_id: "job", policy_family_definition_overrides: '{"b":1}' })));
  expect(family.definition).toBeNull();
  expect([family.policy_family_id, family.policy_family_definition_overrides]).toEqual(["job", '{\n  "b": 1\n}']);
});
