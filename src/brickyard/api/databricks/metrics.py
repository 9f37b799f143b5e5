"""What clusters' nodes use. The snapshot's path is the one that cluster editors ask for; what it answers is ours."""

from __future__ import annotations

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller
from brickyard.services.clustermetrics import AskRange, MetricsRange, MetricsSnapshot

_NEEDS = (Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),)


class AskSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""


async def _snapshot(ctx: ApiContext, caller: Caller, request: AskSnapshot) -> MetricsSnapshot:
    found: MetricsSnapshot = await ctx.services.cluster_metrics.snapshot(caller, request.cluster_id)
    return found


async def _range(ctx: ApiContext, caller: Caller, request: AskRange) -> bytes:
    found: bytes = await ctx.services.cluster_metrics.between(caller, request)
    return found


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="clusters.metrics_snapshot",
        method="GET",
        paths=("/api/2.0/clusters/metrics-snapshot", "/api/2.1/clusters/metrics-snapshot"),
        handler=_snapshot,
        request=AskSnapshot,
        response=MetricsSnapshot,
        summary="What a cluster's nodes use now",
        needs=_NEEDS,
        errors=(404,),
    ),
    Operation(
        name="clusters.metrics",
        method="GET",
        paths=("/api/2.1/clusters/metrics", "/api/2.0/clusters/metrics"),
        handler=_range,
        request=AskRange,
        response=MetricsRange,
        summary="What a cluster's nodes used over a range of time, up to 30 days ago",
        needs=_NEEDS,
        errors=(404,),
    ),
)
