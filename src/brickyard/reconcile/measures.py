"""Prometheus metrics: how long clusters take to start, why they end, and how launches go."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from brickyard.domain.cluster import Cluster, Instance

_LAUNCH_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)


# Why a start was cold. Of several nodes' reasons, the first in the alphabet counts.
NO_POOL = "no_pool"  # the node does not come from an instance pool
NOT_READY = "not_ready"  # its pool had no instance that was ready
UNSUITABLE = "unsuitable"  # it could not keep its JVM; the events say why


class Came(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster has come up."""

    seconds: float  # since it was requested
    cold: str  # why a node had to be made ready (above); "": every node came ready from an instance pool
    runtime: str


def came(before: Cluster, after: Cluster, nodes: Sequence[Instance]) -> Came | None:
    """The metrics of a start that this pass completed, else None. A restart does not count: its request time is not recorded."""
    if before.up or not after.up or before.start_ms <= before.last_restarted_ms:
        return None
    mine = [node for node in nodes if node.live and node.ready and node.generation == after.incarnation]
    return Came(
        seconds=(after.last_restarted_ms - before.start_ms) / 1000,
        cold=min((why for node in mine if (why := _cold(node))), default="" if mine else NO_POOL),
        runtime=after.spec.spark_version or "",
    )


def _cold(node: Instance) -> str:
    """Why a node was not ready when the cluster took it; "" if it was."""
    if node.current_status.warm_start:
        return ""
    if not node.pool_id:
        return NO_POOL
    return UNSUITABLE if node.current_status.cold_reason else NOT_READY


def ended(before: Cluster, after: Cluster) -> tuple[str, str] | None:
    """The code and type of the reason, if the cluster ended in this pass."""
    reason = after.termination_reason
    if before.ended or not after.ended or reason is None or reason.code is None:
        return None
    return reason.code.value, reason.type.value if reason.type else ""


class ClusterMeasures:
    """Updated after the pass has been committed, so that a repeated pass counts once."""

    def __init__(self, *, registry: CollectorRegistry) -> None:
        self._start = Histogram(
            "brickyard_cluster_start_seconds",
            "Time from a cluster's create or start to RUNNING",
            ("runtime", "start", "reason"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._launch = Histogram(
            "brickyard_launch_seconds",
            "Time that the provider took to accept or refuse an instance",
            ("result",),
            buckets=_LAUNCH_BUCKETS,
            registry=registry,
        )
        self._ended = Counter(
            "brickyard_cluster_terminations", "Clusters that ended, by termination reason", ("code", "type"), registry=registry
        )

    def note(self, started: Came | None, reason: tuple[str, str] | None) -> None:
        """Counts the result of a pass."""
        if started is not None:
            self._start.labels(started.runtime, "cold" if started.cold else "warm", started.cold).observe(started.seconds)
        if reason is not None:
            self._ended.labels(*reason).inc()

    def launched(self, result: str, seconds: float) -> None:
        """Counts a launch. `result`: "accepted", or the kind of error."""
        self._launch.labels(result).observe(seconds)
