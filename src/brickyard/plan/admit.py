"""Whether a cluster may be created or edited, and what it becomes: facts in, the changed row or a refusal out. Pure.

`clusters.facts` reads the facts. A refusal is raised: PermissionDenied, InvalidParameterValue, InvalidState,
QuotaExceeded or ResourceDoesNotExist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from brickyard.domain.access import Permission, Principal
from brickyard.domain.cluster import Cluster, Workbench, public_state
from brickyard.domain.errors import ApiError, InvalidParameterValue, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.policies import PolicyRow
from brickyard.domain.requests import CreateCluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import ClusterSource, State
from brickyard.domain.warehouses import Warehouse
from brickyard.plan import changes
from brickyard.plan.access import Acl
from brickyard.plan.changes import Asked, Changed, Secrets
from brickyard.plan.libraries import copied, governed
from brickyard.plan.spec import Offered
from brickyard.plan.specifying import Specified, plain_spec, specify


class Ingredients(NamedTuple):
    """Who may use what a cluster is made of: the workspace, its policy, its pools."""

    workspace: Acl
    policy: Acl | None = None
    pools: tuple[Acl, ...] = ()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in the database and on offer that decides about a requested specification."""

    caller: Principal
    ingredients: Ingredients
    offered: Offered
    policy: PolicyRow | None = None
    malformed: InvalidParameterValue | None = None  # why the policy cannot be applied
    readers: tuple[Principal, ...] = ()  # who must be able to read the secrets to which it newly refers
    scopes: Mapping[str, Acl | None] = {}  # the scopes of these; None: there is no such scope
    over_limit: str = ""  # why the user cannot have one more cluster under the policy
    same: Cluster | None = None  # the active cluster with the idempotency token
    source: Cluster | None = None  # the cluster to clone
    source_acl: Acl | None = None
    source_missing: ApiError | None = None


def check_creator(caller: Principal, ingredients: Ingredients) -> None:
    """Raises PermissionDenied. Users of a policy may create clusters under it (`check_uses`); without one, creating requires the
    entitlement."""
    if ingredients.policy is None:
        ingredients.workspace.require(caller, Permission.ALLOW_CLUSTER_CREATE, to="create clusters in the")


def check_uses(
    caller: Principal,
    ingredients: Ingredients,
    *,
    malformed: InvalidParameterValue | None = None,
    for_compliance: bool = False,
) -> None:
    """Raises unless the caller may use the policy, which must not be `malformed`, and the pools. `for_compliance`: who enforces
    the policy of a cluster needs no permission on the policy."""
    if ingredients.policy is not None and not for_compliance:
        ingredients.policy.require(caller, Permission.CAN_USE, to="create clusters under")
    if malformed is not None:
        raise malformed
    for pool in ingredients.pools:
        pool.require(caller, Permission.CAN_ATTACH_TO, to="create clusters on")


def usable(facts: Facts) -> Offered:
    """What the specification may use. Raises as `check_uses`."""
    check_uses(facts.caller, facts.ingredients, malformed=facts.malformed)
    return facts.offered


def compliant(facts: Facts) -> Offered:
    """What a specification may use that makes a cluster comply with its policy: secrets that the policy adds, only if those who
    will see them may read them. Raises as `check_uses`, and as an edit that refers to them."""
    check_uses(facts.caller, facts.ingredients, malformed=facts.malformed, for_compliance=True)
    _check_secrets(facts)
    return facts.offered


def job_cluster(facts: Facts, requested: ClusterSpec) -> Specified:
    """What a new job cluster of the caller would be. Limits of its policy are not checked."""
    check_creator(facts.caller, facts.ingredients)
    specified = specify(requested, usable(facts), user=facts.caller.user_name)
    _check_secrets(facts)
    return specified


def create(
    facts: Facts,
    request: CreateCluster,
    asked: Asked,
    *,
    cluster_id: str,
    secrets: Secrets,
    stopped: bool = False,
    workbench: Workbench | None = None,
    warehouse: Warehouse | None = None,
) -> Changed:
    """The new cluster, which starts unless `stopped`; `facts.same`, without an event, if there is one."""
    check_creator(facts.caller, facts.ingredients)
    changes.check_idempotency_token(request.idempotency_token or "")
    specified = specify(plain_spec(request), usable(facts), user=facts.caller.user_name)
    if facts.same is not None:
        return Changed(facts.same)
    if facts.source_missing is not None:
        raise facts.source_missing
    if facts.source_acl is not None:
        facts.source_acl.require(facts.caller, Permission.CAN_ATTACH_TO, to="clone")
    _check_limit(facts)
    _check_secrets(facts)
    created = changes.create(cluster_id, request, asked, specified=specified, secrets=secrets, stopped=stopped)
    cluster = msgspec.structs.replace(
        created.cluster,
        libraries=copied(facts.source) if facts.source is not None else (),
        workbench=workbench or created.cluster.workbench,
        source=created.cluster.source if warehouse is None else ClusterSource.SQL,
        warehouse=warehouse,
    )
    return created._replace(cluster=governed(cluster, facts.policy))


def edit(
    facts: Facts, cluster: Cluster, requested: ClusterSpec, asked: Asked, *, secrets: Secrets, unless_same: bool = False
) -> Changed:
    """The cluster with another specification: see `changes.edit`."""
    offered = usable(facts)
    if cluster.spec.policy_id != requested.policy_id:
        if cluster.spec.policy_id:
            check_creator(facts.caller, facts.ingredients)  # else a policy could be shaken off after the creation
        if joins_policy(cluster, requested):
            _check_limit(facts)  # else its limit could be, too
    _check_secrets(facts)
    changed = changes.edit(cluster, requested, offered, asked, secrets=secrets, unless_same=unless_same)
    return with_libraries(cluster, changed, facts.policy)


def with_libraries(before: Cluster, changed: Changed, policy: PolicyRow | None) -> Changed:
    """The change, with the libraries of the cluster's policy if the cluster starts (again)."""
    if changed.cluster.incarnation == before.incarnation:
        return changed
    return changed._replace(cluster=governed(changed.cluster, policy))


def joins_policy(cluster: Cluster, requested: ClusterSpec) -> bool:
    """Whether an edit makes a cluster one of the active clusters of another policy."""
    return cluster.spec.policy_id != requested.policy_id and public_state(cluster) is not State.TERMINATED


def _check_limit(facts: Facts) -> None:
    if facts.over_limit:
        raise QuotaExceeded(facts.over_limit)


def _check_secrets(facts: Facts) -> None:
    """Raises unless all readers may read the secrets to which the specification newly refers. (Whoever changes somebody else's
    cluster could otherwise read the owner's secrets there.) A scope must exist, since nobody has permissions on one that does
    not; a secret need not, yet."""
    for scope, acl in facts.scopes.items():
        if acl is None:
            raise ResourceDoesNotExist(
                f"Scope {scope} does not exist! The specification refers to a secret in it. Create it first."
            )
        for reader in facts.readers:
            acl.require(reader, Permission.READ, to="refer to secrets of")
