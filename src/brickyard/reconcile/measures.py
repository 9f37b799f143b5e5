"""Prometheus metrics: how long clusters take to start, and why they end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from brickyard.domain.cluster import Cluster, Instance

_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)


class Came(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster has come up."""

    seconds: float  # since it was requested
    warm: bool  # every node came ready from an instance pool
    runtime: str


def came(before: Cluster, after: Cluster, nodes: Sequence[Instance]) -> Came | None:
    """The metrics of a start that this pass completed, else None. A restart does not count: its request time is not recorded."""
    if before.up or not after.up or before.start_ms <= before.last_restarted_ms:
        return None
    mine = [node for node in nodes if node.live and node.ready and node.generation == after.incarnation]
    return Came(
        seconds=(after.last_restarted_ms - before.start_ms) / 1000,
        warm=bool(mine) and all(node.current_status.warm_start for node in mine),
        runtime=after.spec.spark_version or "",
    )


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
            ("runtime", "start"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._ended = Counter(
            "brickyard_cluster_terminations", "Clusters that ended, by termination reason", ("code", "type"), registry=registry
        )

    def note(self, started: Came | None, reason: tuple[str, str] | None) -> None:
        """Counts the result of a pass."""
        if started is not None:
            self._start.labels(started.runtime, "warm" if started.warm else "cold").observe(started.seconds)
        if reason is not None:
            self._ended.labels(*reason).inc()
