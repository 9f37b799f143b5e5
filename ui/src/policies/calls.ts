import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, body, type Cluster, words } from "../api/client";
import { markGone } from "../api/gone";
import { type Policy, refreshPolicies } from "../api/offers";
import { clustersQuery } from "../api/queries";
import type { components } from "../api/schema";
import { confirm } from "../app/confirm";
import { toast } from "../app/toasts";
import { nameOf } from "../compute/facts";
import { listed } from "../pools/actions";

type Schemas = components["schemas"];
export type Trial = Schemas["PolicyTrial"];
export type Problem = Schemas["PolicyProblem"];
export type ClusterType = Schemas["ClusterType"];
export type Compliance = Schemas["ClusterCompliance"];

/** Where a policy's rules come from. */
export interface Source {
  definition: string | null;
  policy_family_id: string | null;
  policy_family_definition_overrides: string | null;
}

/** What is wrong with a policy that is not saved, and what it would do to a cluster. What the server refuses to read at all is a
 * problem as well. */
export async function tryPolicy(source: Source, cluster: unknown, cluster_type: ClusterType): Promise<Trial> {
  try {
    const asked = { ...source, cluster, cluster_type } as Schemas["TryPolicy"];
    return await body(api.POST("/api/2.1/policies/clusters/try", { body: asked }));
  } catch (error) {
    if (!(error instanceof ApiError) || ![400, 404].includes(error.status)) throw error;
    return { problems: [{ path: "", message: error.message }], verdict: null };
  }
}

/** All clusters of a policy, with what they violate. */
export async function complianceOf(policyId: string): Promise<Compliance[]> {
  const found: Compliance[] = [];
  let token: string | undefined = "";
  while (token !== undefined) {
    const query: { policy_id: string; page_token?: string } = {
      policy_id: policyId,
      ...(token && { page_token: token }),
    };
    const page: Schemas["ListComplianceResponse"] = await body(
      api.GET("/api/2.0/policies/clusters/list-compliance", { params: { query } }),
    );
    found.push(...(page.clusters ?? []));
    token = page.next_page_token || undefined;
  }
  return found;
}

function consequence(clusters: Cluster[]): string {
  if (clusters.length === 0) return "No cluster that you may see uses it.";
  return `Used by ${listed(clusters.map(nameOf))}: they can still run and start, and cannot be edited before they leave it.`;
}

/** Deletes a policy, after saying what uses it. Resolves to whether it is gone. */
export function useDeletePolicy() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState("");
  const remove = async (policy: Policy): Promise<boolean> => {
    const known = await queries.ensureQueryData(clustersQuery).catch(() => []);
    const using = known.filter((each) => each.policy_id === policy.policy_id);
    const title = `Delete ${policy.name}?`;
    if (!(await confirm({ title, consequence: consequence(using), action: "Delete the policy" }))) return false;
    setBusy(policy.policy_id);
    try {
      await body(api.POST("/api/2.0/policies/clusters/delete", { body: { policy_id: policy.policy_id } }));
      markGone(policy.policy_id, "The policy was deleted.");
      toast(`${policy.name} is deleted.`);
      return true;
    } catch (error) {
      toast(`${policy.name}: ${words(error)}`, { failed: true });
      return false;
    } finally {
      setBusy("");
      void refreshPolicies(queries);
    }
  };
  return { busy, remove };
}
