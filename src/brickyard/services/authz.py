"""The permission seam: every service asks here before it does anything for a caller.

In this version every user may do everything with every cluster and every instance pool, except what the Databricks API keeps for
administrators. Permissions per object replace the bodies of `require` and `require_pool`; their callers stay as they are.
"""

from __future__ import annotations

from enum import StrEnum

from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.pools import Pool
from brickyard.services.caller import Caller


class Action(StrEnum):
    """What a caller wants to do, in words that complete "may not ... this cluster"."""

    CREATE = "create"
    VIEW = "view"
    ATTACH = "attach to"  # run code
    RESTART = "start, restart or terminate"
    MANAGE = "change"  # edit, resize, permanently delete
    PIN = "pin or unpin"
    CHANGE_OWNER = "change the owner of"


ADMIN_ONLY = frozenset({Action.PIN, Action.CHANGE_OWNER})


class Authorizer:
    """Decides who may do what."""

    def require(self, caller: Caller, action: Action, cluster: Cluster | None = None) -> None:
        """Raise PermissionDenied unless the caller may do that to the cluster (None: to none in particular)."""
        if action in ADMIN_ONLY and not caller.is_admin:
            which = f"cluster {cluster.cluster_id}" if cluster is not None else "clusters"
            raise PermissionDenied(f"{caller.user_name} may not {action} {which}: only administrators can. Ask one to do it.")

    def require_pool(self, caller: Caller, action: Action, pool: Pool | None = None) -> None:
        """Raise PermissionDenied unless the caller may do that to the pool (None: to none in particular). ATTACH is to create
        clusters on it. The Databricks API keeps nothing about pools for administrators alone."""
        del caller, action, pool
