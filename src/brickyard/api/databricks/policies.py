"""The Cluster Policies API: 5 calls, policy families: 2 calls, policy compliance of clusters: 4 calls, one of our own."""

from __future__ import annotations

from typing import Any

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import EVERY, Handler, Need, Operation
from brickyard.domain import policies as ask
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.spec import Wire
from brickyard.domain.validation import PolicyTrial, TryPolicy
from brickyard.services.caller import Caller

BODY_LIMIT = 1024 * 1024  # two definitions, escaped


class CancelPendingEnforcement(Wire, frozen=True, kw_only=True):
    cluster_id: str
    allow_missing: bool | None = None


async def _create(ctx: ApiContext, caller: Caller, request: ask.CreatePolicy) -> ask.CreatePolicyResponse:
    return ask.CreatePolicyResponse(policy_id=await ctx.services.policies.create(caller, request))


async def _edit(ctx: ApiContext, caller: Caller, request: ask.EditPolicy) -> None:
    await ctx.services.policies.edit(caller, request)


async def _delete(ctx: ApiContext, caller: Caller, request: ask.PolicyId) -> None:
    await ctx.services.policies.delete(caller, request)


async def _get(ctx: ApiContext, caller: Caller, request: ask.PolicyId) -> ask.PolicyView:
    return await ctx.services.policies.get(caller, request)


async def _list(ctx: ApiContext, caller: Caller, request: ask.ListPolicies) -> ask.ListPoliciesResponse:
    return await ctx.services.policies.list(caller, request)


async def _families(ctx: ApiContext, caller: Caller, request: ask.ListPolicyFamilies) -> ask.ListPolicyFamiliesResponse:
    # All of them fit on the first page.
    found = await ctx.services.policies.families(caller)
    return ask.ListPolicyFamiliesResponse(policy_families=[] if request.page_token else list(found))


async def _family(ctx: ApiContext, caller: Caller, request: ask.PolicyFamilyId) -> ask.PolicyFamily:
    return await ctx.services.policies.family(caller, request.policy_family_id)


async def _compliance(ctx: ApiContext, caller: Caller, request: ask.ComplianceOf) -> ask.Compliance:
    return await ctx.services.clusters.compliance(caller, request.cluster_id)


async def _list_compliance(ctx: ApiContext, caller: Caller, request: ask.ListCompliance) -> ask.ListComplianceResponse:
    return await ctx.services.clusters.list_compliance(caller, request)


async def _enforce(ctx: ApiContext, caller: Caller, request: ask.EnforceCompliance) -> ask.EnforceComplianceResponse:
    return await ctx.services.clusters.enforce_compliance(caller, request)


async def _cancel(ctx: ApiContext, caller: Caller, request: CancelPendingEnforcement) -> None:
    await ctx.services.clusters.cancel_enforcement(caller, request.cluster_id, allow_missing=bool(request.allow_missing))


async def _try(ctx: ApiContext, caller: Caller, request: TryPolicy) -> PolicyTrial:
    return await ctx.services.clusters.try_policy(caller, request)


def _operation(method: str, path: str, name: str, handler: Handler, summary: str, **options: Any) -> Operation:
    return Operation(
        name=name, method=method, paths=(path,), handler=handler, summary=summary, body_limit=BODY_LIMIT, **options
    )  # fmt: skip


_POLICIES = "/api/2.0/policies/clusters/"
_GOVERN = Need(Permission.ADMIN, ObjectKind.WORKSPACE)
_MANAGE = Need(Permission.ADMIN, ObjectKind.CLUSTER_POLICY, "policy_id")
_USE = Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, "policy_id")
_SEE_FAMILIES = Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE)
_SEE_CLUSTER = Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id")
_CHANGE_CLUSTER = Need(Permission.CAN_MANAGE, ObjectKind.CLUSTER, "cluster_id")

OPERATIONS: tuple[Operation, ...] = (
    _operation("POST", _POLICIES + "create", "policies.create", _create, "Create a cluster policy",
               needs=(_GOVERN,),
               request=ask.CreatePolicy, response=ask.CreatePolicyResponse, errors=(404,)),
    _operation("POST", _POLICIES + "edit", "policies.edit", _edit, "Replace a cluster policy",
               needs=(_MANAGE,),
               request=ask.EditPolicy, errors=(404,)),
    _operation("POST", _POLICIES + "delete", "policies.delete", _delete, "Delete a cluster policy",
               needs=(_MANAGE,),
               request=ask.PolicyId, errors=(404,)),
    _operation("GET", _POLICIES + "get", "policies.get", _get, "One cluster policy",
               needs=(_USE,),
               request=ask.PolicyId, response=ask.PolicyView, errors=(404,)),
    _operation("GET", _POLICIES + "list", "policies.list", _list, "The cluster policies that the caller may use",
               needs=(Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, EVERY),),
               request=ask.ListPolicies, response=ask.ListPoliciesResponse),
    _operation("GET", "/api/2.0/policy-families", "policy_families.list", _families, "All policy families",
               needs=(_SEE_FAMILIES,),
               request=ask.ListPolicyFamilies, response=ask.ListPolicyFamiliesResponse),
    _operation("GET", "/api/2.0/policy-families/{policy_family_id}", "policy_families.get", _family, "One policy family",
               needs=(_SEE_FAMILIES,), request=ask.PolicyFamilyId, response=ask.PolicyFamily, errors=(404,)),
    _operation("GET", _POLICIES + "get-compliance", "policies.get_compliance", _compliance,
               "Whether a cluster complies with its policy",
               needs=(_SEE_CLUSTER,),
               request=ask.ComplianceOf, response=ask.Compliance, errors=(404,)),
    _operation("GET", _POLICIES + "list-compliance", "policies.list_compliance", _list_compliance,
               "Whether the clusters of a policy comply with it",
               needs=(_MANAGE,),
               request=ask.ListCompliance, response=ask.ListComplianceResponse, errors=(404,)),
    _operation("POST", _POLICIES + "enforce-compliance", "policies.enforce_compliance", _enforce,
               "Change a cluster so that it complies with its policy",
               needs=(_CHANGE_CLUSTER,),
               request=ask.EnforceCompliance, response=ask.EnforceComplianceResponse, errors=(404,), makes_work=True),
    _operation("POST", "/api/2.0/policies/clusters:cancelPendingClusterEnforcement", "policies.cancel_enforcement", _cancel,
               "Cancel an enforcement that waits for a cluster's termination",
               needs=(Need(Permission.ADMIN, ObjectKind.CLUSTER, "cluster_id"),),
               request=CancelPendingEnforcement, errors=(404,)),
    _operation("POST", "/api/2.1/policies/clusters/try", "policies.try", _try,
               "What is wrong with a policy that is not saved, and what it would do to a cluster",
               needs=(_GOVERN, _USE), request=TryPolicy, response=PolicyTrial, errors=(404,), only_reads=True),
)  # fmt: skip
