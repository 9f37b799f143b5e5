"""The Cluster Policies API: 5 calls, policy families: 2 calls, policy compliance of clusters: 4 calls, one of our own."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, CAN_ATTACH, CAN_MANAGE, IN_WORKSPACE, Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.clusters.service import ClusterService
from brickyard.domain import policies as ask
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.pagetokens import NumberCursor, encode, first_of_page
from brickyard.domain.spec import Wire
from brickyard.features.policies.service import PolicyService

BODY_LIMIT = 1024 * 1024  # two definitions, escaped


class CancelPendingEnforcement(Wire, frozen=True, kw_only=True):
    cluster_id: str
    allow_missing: bool | None = None


async def _create(policies: PolicyService, caller: Caller, request: ask.CreatePolicy) -> ask.CreatePolicyResponse:
    return ask.CreatePolicyResponse(policy_id=await policies.create(caller, request))


async def _families(policies: PolicyService, caller: Caller, request: ask.ListPolicyFamilies) -> ask.ListPolicyFamiliesResponse:
    if (request.max_results or 0) < 0:
        raise InvalidParameterValue(f"max_results is {request.max_results}; it must not be negative.")
    found, first = await policies.families(caller), first_of_page(request.page_token)
    end = first + (request.max_results or len(found))
    token = encode(NumberCursor(end)) if end < len(found) else None
    return ask.ListPolicyFamiliesResponse(policy_families=list(found[first:end]), next_page_token=token)


async def _family(policies: PolicyService, caller: Caller, request: ask.PolicyFamilyId) -> ask.PolicyFamily:
    return await policies.family(caller, request.policy_family_id)


async def _compliance(clusters: ClusterService, caller: Caller, request: ask.ComplianceOf) -> ask.Compliance:
    return await clusters.compliance(caller, request.cluster_id)


async def _cancel(clusters: ClusterService, caller: Caller, request: CancelPendingEnforcement) -> None:
    await clusters.cancel_enforcement(caller, request.cluster_id, allow_missing=bool(request.allow_missing))


_MANAGE = Need(Permission.ADMIN, ObjectKind.CLUSTER_POLICY, "policy_id")
_USE = Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, "policy_id")

_COMPLIANCE = Group(
    "policies", lambda ctx: ctx.services.clusters, "/api/2.0/policies/clusters", body_limit=BODY_LIMIT, errors=(404,)
)
_TRY = Group("policies", lambda ctx: ctx.services.clusters, "/api/2.1/policies/clusters")
_POLICIES = Group("policies", lambda ctx: ctx.services.policies, "/api/2.0/policies/clusters", body_limit=BODY_LIMIT)
_FAMILIES = Group(
    "policy_families", lambda ctx: ctx.services.policies, "/api/2.0/policy-families", needs=IN_WORKSPACE, body_limit=BODY_LIMIT
)
OPERATIONS: tuple[Operation, ...] = (
    _POLICIES("POST /create", _create, "Create a cluster policy", needs=ADMIN, errors=(404,)),
    _POLICIES("POST /edit", PolicyService.edit, "Replace a cluster policy", needs=_MANAGE, errors=(404,)),
    _POLICIES("POST /delete", PolicyService.delete, "Delete a cluster policy", needs=_MANAGE, errors=(404,)),
    _POLICIES("GET /get", PolicyService.get, "One cluster policy", needs=_USE, errors=(404,)),
    _POLICIES(
        "GET /list",
        PolicyService.list,
        "The cluster policies that the caller may use",
        needs=Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, EVERY),
    ),
    _FAMILIES("GET", _families, "All policy families", name="list"),
    _FAMILIES("GET /{policy_family_id}", _family, "One policy family", name="get", errors=(404,)),
    _COMPLIANCE("GET /get-compliance", _compliance, "Whether a cluster complies with its policy", needs=CAN_ATTACH),
    _COMPLIANCE(
        "GET /list-compliance", ClusterService.list_compliance, "Whether the clusters of a policy comply with it", needs=_MANAGE
    ),
    _COMPLIANCE(
        "POST /enforce-compliance",
        ClusterService.enforce_compliance,
        "Change a cluster so that it complies with its policy",
        needs=CAN_MANAGE,
        makes_work=True,
    ),
    _COMPLIANCE(
        "POST :cancelPendingClusterEnforcement",
        _cancel,
        "Cancel an enforcement that waits for a cluster's termination",
        name="cancel_enforcement",
        needs=on_cluster(Permission.ADMIN),
    ),
    _TRY(
        "POST /try",
        ClusterService.try_policy,
        "What is wrong with a policy that is not saved, and what it would do to a cluster",
        needs=(ADMIN, _USE),
        body_limit=BODY_LIMIT,
        only_reads=True,
        errors=(404,),
    ),
)
