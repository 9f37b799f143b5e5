"""What clusters' nodes use. The snapshot's path is the one that cluster editors ask for; what it answers is ours."""

from __future__ import annotations

import msgspec

from brickyard.api.edge.group import CAN_ATTACH, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.features.metrics.service import ClusterMetrics, MetricsRange, MetricsSnapshot


class AskSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""


async def _snapshot(cluster_metrics: ClusterMetrics, caller: Caller, request: AskSnapshot) -> MetricsSnapshot:
    found: MetricsSnapshot = await cluster_metrics.snapshot(caller, request.cluster_id)
    return found


_SNAPSHOT = Group("clusters", lambda ctx: ctx.services.cluster_metrics, "/api/2.0/clusters", "/api/2.1/clusters")
_METRICS = Group("clusters", lambda ctx: ctx.services.cluster_metrics, "/api/2.1/clusters", "/api/2.0/clusters")
OPERATIONS: tuple[Operation, ...] = (
    _SNAPSHOT("GET /metrics-snapshot", _snapshot, "What a cluster's nodes use now", needs=CAN_ATTACH, errors=(404,)),
    _METRICS(
        "GET /metrics",
        ClusterMetrics.between,
        "What a cluster's nodes used over a range of time, up to 30 days ago",
        needs=CAN_ATTACH,
        response=MetricsRange,
        errors=(404,),
    ),
)
