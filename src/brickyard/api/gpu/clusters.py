"""The /v1/clusters API: create, list, get, start, restart, stop, delete, and the progress of the last operation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.api.edge.sse import CONTENT_TYPE, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.api.gpu.operations import MANAGE, SEE, declared, on_cluster
from brickyard.domain import gpuclusters as gpu
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.gpumetrics import GetGpuMetrics, GpuMetricsAnswer
from brickyard.services.caller import Caller
from brickyard.services.gpu.service import RETRY_AFTER_S

_CLUSTER = "/v1/clusters/{cluster_id}"
_KEY = {"idempotency-key": "idempotency_key"}


async def _create(ctx: ApiContext, caller: Caller, request: gpu.CreateGpuCluster) -> Reply:
    return _accepted(await ctx.services.gpu_clusters.create(caller, request), status=201)


async def _list(ctx: ApiContext, caller: Caller, request: gpu.ListGpuClusters) -> bytes:
    return _enveloped(await ctx.services.gpu_clusters.reads.list(caller, request))


async def _get(ctx: ApiContext, caller: Caller, request: gpu.GetGpuCluster) -> bytes:
    return _enveloped(await ctx.services.gpu_details.get(caller, request))


async def _metrics(ctx: ApiContext, caller: Caller, request: GetGpuMetrics) -> GpuMetricsAnswer:
    return GpuMetricsAnswer(data=await ctx.services.gpu_details.metrics(caller, request))


async def _start(ctx: ApiContext, caller: Caller, request: gpu.StartGpuCluster) -> Reply:
    return _accepted(await ctx.services.gpu_clusters.start(caller, request), status=200 if request.wait_for_ready else 202)


async def _restart(ctx: ApiContext, caller: Caller, request: gpu.RestartGpuCluster) -> Reply:
    return _accepted(await ctx.services.gpu_clusters.restart(caller, request), status=200 if request.wait_for_ready else 202)


async def _stop(ctx: ApiContext, caller: Caller, request: gpu.StopGpuCluster) -> Reply:
    return _accepted(await ctx.services.gpu_clusters.stop(caller, request), status=200 if request.wait_for_completion else 202)


async def _delete(ctx: ApiContext, caller: Caller, request: gpu.DeleteGpuCluster) -> gpu.DeletedGpuClusterAnswer:
    await ctx.services.gpu_clusters.delete(caller, request)
    return gpu.DeletedGpuClusterAnswer(data=gpu.DeletedGpuCluster(id=request.cluster_id))


async def _operation(ctx: ApiContext, caller: Caller, request: gpu.GetOperation) -> gpu.OperationAnswer:
    found = await ctx.services.gpu_clusters.reads.operation(caller, request.cluster_id, request.operation_id)
    return gpu.OperationAnswer(data=found)


async def _progress(ctx: ApiContext, caller: Caller, request: gpu.GpuClusterId) -> Stream:
    following = await ctx.services.gpu_clusters.reads.follow(caller, request.cluster_id)
    return event_stream(_events(following.pieces()), close=following.close)


async def _events(operations: AsyncIterator[gpu.Operation | None]) -> AsyncIterator[ServerEvent | None]:
    number = 0
    async for operation in operations:
        if operation is None:
            yield None
            continue
        number += 1
        kind = "progress" if operation.status is gpu.PhaseStatus.IN_PROGRESS else operation.status.value
        yield ServerEvent(f"{operation.id}-{number}", kind, msgspec.json.encode(operation).decode())


def _enveloped(data: bytes) -> bytes:
    """What is encoded already, as `GpuClusterAnswer` and `GpuClusterPageAnswer` are."""
    return b'{"success":true,"data":%b}' % data


def _accepted(view: gpu.GpuCluster, *, status: int) -> Reply:
    """The cluster. While its operation goes on, with when to ask for it again, and where."""
    headers: tuple[tuple[str, str], ...] = ()
    if view.operation is not None and view.operation.status is gpu.PhaseStatus.IN_PROGRESS:
        where = f"/v1/clusters/{view.id}/operations/{view.operation.id}"
        headers = (("retry-after", str(RETRY_AFTER_S)), ("location", where))
    return Reply(body=msgspec.json.encode(gpu.GpuClusterAnswer(data=view)), status=status, headers=headers, made=view)


_BEGIN = (on_cluster(Permission.CAN_RESTART), on_cluster(Permission.CAN_MANAGE, "configured_cluster_id"))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_clusters.create",
        "POST",
        "/v1/clusters",
        _create,
        "Create a cluster from a number of GPUs, cores and memory",
        request=gpu.CreateGpuCluster,
        needs=(Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE),),
        statuses=(201,),
        errors=(422,),
        from_headers=_KEY,
        response=gpu.GpuClusterAnswer,
        makes_work=True,
    ),
    declared(
        "gpu_clusters.list",
        "GET",
        "/v1/clusters",
        _list,
        "Clusters in numbered pages, with filters, search and order",
        request=gpu.ListGpuClusters,
        response=gpu.GpuClusterPageAnswer,
        needs=(on_cluster(Permission.CAN_ATTACH_TO, EVERY),),
        errors=(),
    ),
    declared(
        "gpu_clusters.get",
        "GET",
        _CLUSTER,
        _get,
        "One cluster",
        request=gpu.GetGpuCluster,
        needs=(*SEE, on_cluster(Permission.CAN_MANAGE, "read_cluster_id")),
        response=gpu.GpuClusterAnswer,
    ),
    declared(
        "gpu_clusters.metrics",
        "GET",
        f"{_CLUSTER}/metrics",
        _metrics,
        "What a cluster's nodes use, now and over a window of time",
        request=GetGpuMetrics,
        needs=SEE,
        response=GpuMetricsAnswer,
    ),
    declared(
        "gpu_clusters.start",
        "POST",
        f"{_CLUSTER}/start",
        _start,
        "Configure and start a stopped cluster",
        request=gpu.StartGpuCluster,
        needs=_BEGIN,
        statuses=(202, 200),
        errors=(404, 409, 422, 500, 504),
        from_headers=_KEY,
        response=gpu.GpuClusterAnswer,
        makes_work=True,
    ),
    declared(
        "gpu_clusters.restart",
        "POST",
        f"{_CLUSTER}/restart",
        _restart,
        "Configure and restart a running cluster",
        request=gpu.RestartGpuCluster,
        needs=_BEGIN,
        statuses=(202, 200),
        errors=(404, 409, 422, 500, 504),
        from_headers=_KEY,
        response=gpu.GpuClusterAnswer,
        makes_work=True,
    ),
    declared(
        "gpu_clusters.stop",
        "POST",
        f"{_CLUSTER}/stop",
        _stop,
        "Stop a cluster; it can be started again",
        request=gpu.StopGpuCluster,
        needs=(on_cluster(Permission.CAN_RESTART), on_cluster(Permission.CAN_MANAGE, "discarded_cluster_id")),
        statuses=(202, 200),
        errors=(404, 409, 422, 500, 504),
        response=gpu.GpuClusterAnswer,
    ),
    declared(
        "gpu_clusters.delete",
        "DELETE",
        _CLUSTER,
        _delete,
        "Remove a cluster for good",
        request=gpu.DeleteGpuCluster,
        response=gpu.DeletedGpuClusterAnswer,
        needs=MANAGE,
        errors=(404, 409, 422),
        may_have_body=True,
    ),
    declared(
        "gpu_clusters.operation",
        "GET",
        f"{_CLUSTER}/operations/{{operation_id}}",
        _operation,
        "A cluster's last start, restart or stop, with its phases",
        request=gpu.GetOperation,
        response=gpu.OperationAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_clusters.progress",
        "GET",
        f"{_CLUSTER}/progress",
        _progress,
        "The same as server-sent events, until it has ended",
        request=gpu.GpuClusterId,
        response=None,
        needs=SEE,
        content_type=CONTENT_TYPE,
    ),
)
