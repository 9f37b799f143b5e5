"""Who may have a cluster made of what: each function raises PermissionDenied."""

from __future__ import annotations

from brickyard.domain.access import Permission, Principal
from brickyard.domain.policies import PolicyRow
from brickyard.domain.pools import Pool
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.spec import named_pools
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import WORKSPACE, of_policy, of_pool
from brickyard.store.tx import Tx


def may_create(tx: Tx, authorizer: Authorizer, principal: Principal, policy: PolicyRow | None) -> None:
    """Users of a policy may create clusters under it (`may_use`); without one, creating requires the entitlement."""
    if policy is None:
        authorizer.require(tx, principal, Permission.ALLOW_CLUSTER_CREATE, WORKSPACE, to="create clusters in the")


def may_use(tx: Tx, authorizer: Authorizer, principal: Principal, policy: PolicyRow) -> None:
    authorizer.require(tx, principal, Permission.CAN_USE, of_policy(policy), to="create clusters under")


def usable_pools(tx: Tx, authorizer: Authorizer, principal: Principal, spec: ClusterSpec) -> dict[str, Pool]:
    """The pools that the specification names. They stay locked until the commit."""
    pools = tx.pools.many(named_pools(spec))
    for pool in pools.values():
        authorizer.require(tx, principal, Permission.CAN_ATTACH_TO, of_pool(pool), to="create clusters on")
    return pools
