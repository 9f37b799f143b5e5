"""Changes that enforcing a policy has deferred until a cluster terminates or restarts. Pure.

A deferred specification replaces the cluster's own in the pass or the request that ends or restarts the cluster. An edit before
that replaces it, since an edit has to comply too. A resize stays in effect: it complies as well.
"""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Cluster, DeferredEnforcement, public_state
from brickyard.domain.errors import InvalidState
from brickyard.domain.events import ClusterEvent, ClusterSize, EventDetails, EventType
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State


def deferred(
    cluster: Cluster, spec: ClusterSpec, pool_tags: dict[str, str], *, user: str, now: int
) -> tuple[Cluster, ClusterEvent]:
    """The cluster with a specification that waits for its end, in place of one that waited before."""
    waiting = DeferredEnforcement(user=user, since_ms=now, spec=spec, pool_tags=pool_tags, size_before=size_of(cluster.spec))
    done = msgspec.structs.replace(cluster, enforcement=waiting)
    kind = EventType.DEFERRED_POLICY_ENFORCEMENT_SCHEDULED
    return done, _event(cluster, kind, _difference(cluster.spec, spec, user=user), now)


def target(cluster: Cluster) -> ClusterSpec:
    """The specification that the cluster will have. Its own if nothing waits."""
    waiting = cluster.enforcement
    if waiting is None:
        return cluster.spec
    if size_of(cluster.spec) == waiting.size_before:
        return waiting.spec
    return msgspec.structs.replace(waiting.spec, num_workers=cluster.spec.num_workers, autoscale=cluster.spec.autoscale)


def applied(cluster: Cluster, *, now: int) -> tuple[Cluster, tuple[ClusterEvent, ...]]:
    """The cluster with what has waited for its end. Does nothing if nothing has."""
    waiting, spec = cluster.enforcement, target(cluster)
    if waiting is None:
        return cluster, ()
    done = msgspec.structs.replace(cluster, spec=spec, request=spec, pool_tags=waiting.pool_tags, enforcement=None)
    return done, (edited(cluster, spec, user=waiting.user, now=now),)


def cancelled(cluster: Cluster) -> Cluster:
    """The cluster without what waits for its end. Raises InvalidState once it is ending."""
    if public_state(cluster) is State.TERMINATING:
        raise InvalidState(
            f"Cluster {cluster.cluster_id} is terminating: its pending enforcement is applied now and cannot be cancelled. Edit "
            "the cluster when it has terminated."
        )
    return msgspec.structs.replace(cluster, enforcement=None)


def failed(cluster: Cluster, *, now: int, user: str) -> tuple[Cluster, ClusterEvent]:
    """The cluster without what waits for its end, which will not be applied: its policy is deleted by `user`."""
    details = EventDetails(user=user)
    done = msgspec.structs.replace(cluster, enforcement=None)
    return done, _event(cluster, EventType.DEFERRED_POLICY_ENFORCEMENT_FAILED, details, now)


def edited(cluster: Cluster, spec: ClusterSpec, *, user: str, now: int) -> ClusterEvent:
    """The event that a cluster has got another specification."""
    return _event(cluster, EventType.EDITED, _difference(cluster.spec, spec, user=user), now)


def attributes_of(spec: ClusterSpec) -> ClusterSpec:
    """A specification without its size, as events show it."""
    return msgspec.structs.replace(spec, num_workers=None, autoscale=None)


def size_of(spec: ClusterSpec) -> ClusterSize:
    """The size of a specification, as events show it."""
    return ClusterSize(num_workers=spec.num_workers, autoscale=spec.autoscale)


def _difference(before: ClusterSpec, after: ClusterSpec, *, user: str) -> EventDetails:
    return EventDetails(
        previous_attributes=attributes_of(before),
        attributes=attributes_of(after),
        previous_cluster_size=size_of(before),
        cluster_size=size_of(after),
        user=user,
    )


def _event(cluster: Cluster, kind: EventType, details: EventDetails, now: int) -> ClusterEvent:
    return ClusterEvent(cluster_id=cluster.cluster_id, timestamp=now, type=kind, details=details)
