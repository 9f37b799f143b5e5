"""Which start a repeated request finds. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from brickyard.domain.cluster import Cluster
from brickyard.domain.v1.clusters import RestartV1Cluster, StartV1Cluster, V1ClusterState
from brickyard.plan.v1.autoterminate import merged
from brickyard.plan.v1.progress import state_of


def start_key(request: StartV1Cluster) -> str:
    """What a repeated request has in common with the first one: the key that the client chose, or everything but its waits."""
    same = msgspec.structs.replace(request, wait_for_ready=None, timeout_minutes=None)
    if isinstance(same, RestartV1Cluster):
        same = msgspec.structs.replace(same, force=None, grace_period_minutes=None)
    what = request.idempotency_key or msgspec.json.encode(same, order="sorted").decode()
    kind = "RestartV1Cluster" if isinstance(request, RestartV1Cluster) else "StartV1Cluster"  # as older rows have it
    return hashlib.sha256(f"{kind} {bool(request.idempotency_key)} {what}".encode()).hexdigest()


def begun_by(cluster: Cluster, request: StartV1Cluster, *, key: str, user_name: str) -> Cluster:
    """The cluster, whose present incarnation was begun by the request (`key`: of `start_key`), with what it asks for besides."""
    known = cluster.workbench
    workbench = msgspec.structs.replace(
        known,
        start_key=key,
        start_incarnation=cluster.incarnation,
        auto_terminate=merged(request.auto_terminate_updates, known.auto_terminate, by=user_name),
        storage_gb=request.storage_gb or known.storage_gb,
    )
    return msgspec.structs.replace(cluster, workbench=workbench)


def is_repeated(cluster: Cluster, key: str, *, given: bool) -> bool:
    """Whether the present incarnation was begun by the same request. Without a key from the client (`given`), only while it
    starts: a later request with the same contents wants another start."""
    known = cluster.workbench
    same = known.start_key == key and known.start_incarnation == cluster.incarnation
    return same and (given or state_of(cluster) is V1ClusterState.STARTING)
