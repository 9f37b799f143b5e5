"""How many of a cluster's execution contexts a user may have."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.domain.access import Permission, Principal
from brickyard.domain.cluster import Cluster
from brickyard.domain.quotas import Quota
from brickyard.plan.access import access_refusal
from brickyard.store.tx import Tx

CONTEXTS = Quota("execution contexts", total=145, share=36, reserve=15)  # the driver's node counts (node/contexts/contexts.py)


class ContextShare(NamedTuple):
    """Fields of NewContext."""

    share: int = 0
    reserve: int = 0


def share_of(tx: Tx, authorizer: Authorizer, principal: Principal, cluster: Cluster) -> ContextShare:
    """What bounds the user's contexts on the cluster. Whoever may manage it has no share, and the reserve as well."""
    on = of_cluster(cluster)
    acl = authorizer.acl(tx, on, of=principal)
    attaches = access_refusal(principal, Permission.CAN_MANAGE, on, to="manage", grants=acl.grants)
    return ContextShare(CONTEXTS.share, CONTEXTS.reserve) if attaches else ContextShare()
