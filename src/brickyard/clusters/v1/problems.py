"""Errors that all calls of the /v1/clusters dialect share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import InvalidState, ResourceNotFound, SemanticError, StateConflict
from brickyard.domain.strict import Problem
from brickyard.plan.v1.progress import state_of
from brickyard.store.tx import Tx


def existing(tx: Tx, cluster_id: str) -> Cluster:
    """The cluster. Raises ResourceNotFound."""
    cluster = tx.clusters.get(cluster_id)
    if cluster is None or cluster.deleted_ms:
        raise missing("cluster", cluster_id)
    return cluster


def permitted(tx: Tx, authorizer: Authorizer, caller: Caller, cluster_id: str, permission: Permission, *, to: str) -> Cluster:
    """The cluster, for a caller with the permission on it. Raises ResourceNotFound or PermissionDenied."""
    cluster = existing(tx, cluster_id)
    authorizer.require(tx, caller, permission, of_cluster(cluster), to=to)
    return cluster


def missing(kind: str, name: str) -> ResourceNotFound:
    """The error for what does not exist."""
    return ResourceNotFound(f"{kind.capitalize()} {name[:140]} does not exist.", resource=kind, id=name[:140])


def refuse(problems: Sequence[Problem]) -> None:
    """Raises SemanticError with every problem."""
    if not problems:
        return
    first = problems[0]
    raise SemanticError(
        "; ".join(f"{each.field}: {each.reason}" for each in problems),
        problems=[msgspec.to_builtins(each) for each in problems],
        requested=first.requested,
        available=first.available,
    )


def conflict(cluster: Cluster, *, required: str, remedy: str = "") -> StateConflict:
    state = state_of(cluster).value
    return StateConflict(
        f"Cluster {cluster.cluster_id} is {state}; it must be {required}.{remedy}", current_state=state, required_state=required
    )


@contextlib.contextmanager
def conflicts(cluster: Cluster) -> Iterator[None]:
    """Translates refusals of the other dialect that are about the cluster's state or kind, such as those of job clusters."""
    try:
        yield
    except InvalidState as error:
        raise StateConflict(error.message, current_state=state_of(cluster).value, required_state="") from error
