import { ApiError, api, body } from "../api/client";
import { refreshPolicies } from "../api/offers";
import type { components } from "../api/schema";
import { useDeletion } from "../clusters/deletion";

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

export const useDeletePolicy = () =>
  useDeletion({
    noun: "policy",
    uses: (id) => (cluster) => cluster.policy_id === id,
    consequence: (using) =>
      using === ""
        ? "No cluster that you can see uses it."
        : `Used by ${using}. These clusters keep running and can start, but must leave the policy before they can be edited.`,
    call: (id) => body(api.POST("/api/2.0/policies/clusters/delete", { body: { policy_id: id } })),
    refresh: refreshPolicies,
  });
