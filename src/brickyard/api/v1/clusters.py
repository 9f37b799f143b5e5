"""The /v1/clusters API: create, list, get, start, restart, stop, delete, and the progress of the last operation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.api.edge.sse import CONTENT_TYPE, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.api.v1.operations import MANAGE, SEE, declared, on_cluster
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.v1 import clusters as v1
from brickyard.domain.v1.details import GetV1Metrics, V1MetricsAnswer
from brickyard.services.caller import Caller
from brickyard.services.v1.service import RETRY_AFTER_S

_CLUSTER = "/v1/clusters/{cluster_id}"
_KEY = {"idempotency-key": "idempotency_key"}


async def _create(ctx: ApiContext, caller: Caller, request: v1.CreateV1Cluster) -> Reply:
    return _accepted(await ctx.services.v1_clusters.create(caller, request), status=201)


async def _list(ctx: ApiContext, caller: Caller, request: v1.ListV1Clusters) -> bytes:
    return _enveloped(await ctx.services.v1_clusters.reads.list(caller, request))


async def _get(ctx: ApiContext, caller: Caller, request: v1.GetV1Cluster) -> bytes:
    return _enveloped(await ctx.services.v1_details.get(caller, request))


async def _metrics(ctx: ApiContext, caller: Caller, request: GetV1Metrics) -> V1MetricsAnswer:
    return V1MetricsAnswer(data=await ctx.services.v1_details.metrics(caller, request))


async def _start(ctx: ApiContext, caller: Caller, request: v1.StartV1Cluster) -> Reply:
    return _accepted(await ctx.services.v1_clusters.start(caller, request), status=200 if request.wait_for_ready else 202)


async def _restart(ctx: ApiContext, caller: Caller, request: v1.RestartV1Cluster) -> Reply:
    return _accepted(await ctx.services.v1_clusters.restart(caller, request), status=200 if request.wait_for_ready else 202)


async def _stop(ctx: ApiContext, caller: Caller, request: v1.StopV1Cluster) -> Reply:
    return _accepted(await ctx.services.v1_clusters.stop(caller, request), status=200 if request.wait_for_completion else 202)


async def _delete(ctx: ApiContext, caller: Caller, request: v1.DeleteV1Cluster) -> v1.DeletedV1ClusterAnswer:
    await ctx.services.v1_clusters.delete(caller, request)
    return v1.DeletedV1ClusterAnswer(data=v1.DeletedV1Cluster(id=request.cluster_id))


async def _operation(ctx: ApiContext, caller: Caller, request: v1.GetOperation) -> v1.OperationAnswer:
    found = await ctx.services.v1_clusters.reads.operation(caller, request.cluster_id, request.operation_id)
    return v1.OperationAnswer(data=found)


async def _progress(ctx: ApiContext, caller: Caller, request: v1.V1ClusterId) -> Stream:
    following = await ctx.services.v1_clusters.reads.follow(caller, request.cluster_id)
    return event_stream(_events(following.pieces()), close=following.close)


async def _events(operations: AsyncIterator[v1.Operation | None]) -> AsyncIterator[ServerEvent | None]:
    number = 0
    async for operation in operations:
        if operation is None:
            yield None
            continue
        number += 1
        kind = "progress" if operation.status is v1.PhaseStatus.IN_PROGRESS else operation.status.value
        yield ServerEvent(f"{operation.id}-{number}", kind, msgspec.json.encode(operation).decode())


def _enveloped(data: bytes) -> bytes:
    """What is encoded already, as `V1ClusterAnswer` and `V1ClusterPageAnswer` are."""
    return b'{"success":true,"data":%b}' % data


def _accepted(view: v1.V1Cluster, *, status: int) -> Reply:
    """The cluster. While its operation goes on, with when to ask for it again, and where."""
    headers: tuple[tuple[str, str], ...] = ()
    if view.operation is not None and view.operation.status is v1.PhaseStatus.IN_PROGRESS:
        where = f"/v1/clusters/{view.id}/operations/{view.operation.id}"
        headers = (("retry-after", str(RETRY_AFTER_S)), ("location", where))
    return Reply(body=msgspec.json.encode(v1.V1ClusterAnswer(data=view)), status=status, headers=headers, made=view)


_BEGIN = (on_cluster(Permission.CAN_RESTART), on_cluster(Permission.CAN_MANAGE, "configured_cluster_id"))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_clusters.create",
        "POST",
        "/v1/clusters",
        _create,
        "Create a cluster from a number of GPUs, cores and memory",
        request=v1.CreateV1Cluster,
        needs=(Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE),),
        statuses=(201,),
        errors=(422,),
        from_headers=_KEY,
        response=v1.V1ClusterAnswer,
        makes_work=True,
    ),
    declared(
        "gpu_clusters.list",
        "GET",
        "/v1/clusters",
        _list,
        "Clusters in numbered pages, with filters, search and order",
        request=v1.ListV1Clusters,
        response=v1.V1ClusterPageAnswer,
        needs=(on_cluster(Permission.CAN_ATTACH_TO, EVERY),),
        errors=(),
    ),
    declared(
        "gpu_clusters.get",
        "GET",
        _CLUSTER,
        _get,
        "One cluster",
        request=v1.GetV1Cluster,
        needs=(*SEE, on_cluster(Permission.CAN_MANAGE, "read_cluster_id")),
        response=v1.V1ClusterAnswer,
    ),
    declared(
        "gpu_clusters.metrics",
        "GET",
        f"{_CLUSTER}/metrics",
        _metrics,
        "What a cluster's nodes use, now and over a window of time",
        request=GetV1Metrics,
        needs=SEE,
        response=V1MetricsAnswer,
    ),
    declared(
        "gpu_clusters.start",
        "POST",
        f"{_CLUSTER}/start",
        _start,
        "Configure and start a stopped cluster",
        request=v1.StartV1Cluster,
        needs=_BEGIN,
        statuses=(202, 200),
        errors=(404, 409, 422, 500, 504),
        from_headers=_KEY,
        response=v1.V1ClusterAnswer,
        makes_work=True,
    ),
    declared(
        "gpu_clusters.restart",
        "POST",
        f"{_CLUSTER}/restart",
        _restart,
        "Configure and restart a running cluster",
        request=v1.RestartV1Cluster,
        needs=_BEGIN,
        statuses=(202, 200),
        errors=(404, 409, 422, 500, 504),
        from_headers=_KEY,
        response=v1.V1ClusterAnswer,
        makes_work=True,
    ),
    declared(
        "gpu_clusters.stop",
        "POST",
        f"{_CLUSTER}/stop",
        _stop,
        "Stop a cluster; it can be started again",
        request=v1.StopV1Cluster,
        needs=(on_cluster(Permission.CAN_RESTART), on_cluster(Permission.CAN_MANAGE, "discarded_cluster_id")),
        statuses=(202, 200),
        errors=(404, 409, 422, 500, 504),
        response=v1.V1ClusterAnswer,
    ),
    declared(
        "gpu_clusters.delete",
        "DELETE",
        _CLUSTER,
        _delete,
        "Remove a cluster for good",
        request=v1.DeleteV1Cluster,
        response=v1.DeletedV1ClusterAnswer,
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
        request=v1.GetOperation,
        response=v1.OperationAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_clusters.progress",
        "GET",
        f"{_CLUSTER}/progress",
        _progress,
        "The same as server-sent events, until it has ended",
        request=v1.V1ClusterId,
        response=None,
        needs=SEE,
        content_type=CONTENT_TYPE,
    ),
)
