"""The /v1/clusters API: create, list, get, start, restart, stop, delete, and the progress of the last operation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, CAN_RESTART, Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.api.edge.sse import CONTENT_TYPE, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.api.v1.dialect import V1
from brickyard.clusters.v1.details import V1Details
from brickyard.clusters.v1.reads import V1Reads
from brickyard.clusters.v1.service import RETRY_AFTER_S, V1ClusterService
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.v1 import clusters as v1
from brickyard.domain.v1.details import GetV1Metrics, V1MetricsAnswer

_KEY = {"idempotency-key": "idempotency_key"}


async def _create(clusters: V1ClusterService, caller: Caller, request: v1.CreateV1Cluster) -> Reply:
    return _accepted(await clusters.create(caller, request), status=201)


async def _list(reads: V1Reads, caller: Caller, request: v1.ListV1Clusters) -> bytes:
    return _enveloped(await reads.list(caller, request))


async def _get(details: V1Details, caller: Caller, request: v1.GetV1Cluster) -> bytes:
    return _enveloped(await details.get(caller, request))


async def _metrics(details: V1Details, caller: Caller, request: GetV1Metrics) -> V1MetricsAnswer:
    return V1MetricsAnswer(data=await details.metrics(caller, request))


async def _start(clusters: V1ClusterService, caller: Caller, request: v1.StartV1Cluster) -> Reply:
    return _accepted(await clusters.start(caller, request), status=200 if request.wait_for_ready else 202)


async def _restart(clusters: V1ClusterService, caller: Caller, request: v1.RestartV1Cluster) -> Reply:
    return _accepted(await clusters.restart(caller, request), status=200 if request.wait_for_ready else 202)


async def _stop(clusters: V1ClusterService, caller: Caller, request: v1.StopV1Cluster) -> Reply:
    return _accepted(await clusters.stop(caller, request), status=200 if request.wait_for_completion else 202)


async def _delete(clusters: V1ClusterService, caller: Caller, request: v1.DeleteV1Cluster) -> v1.DeletedV1ClusterAnswer:
    await clusters.delete(caller, request)
    return v1.DeletedV1ClusterAnswer(data=v1.DeletedV1Cluster(id=request.cluster_id))


async def _operation(reads: V1Reads, caller: Caller, request: v1.GetOperation) -> v1.OperationAnswer:
    found = await reads.operation(caller, request.cluster_id, request.operation_id)
    return v1.OperationAnswer(data=found)


async def _progress(reads: V1Reads, caller: Caller, request: v1.V1ClusterId) -> Stream:
    following = await reads.follow(caller, request.cluster_id)
    return event_stream(_events(following.pieces()), source=following)


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


_BEGIN = (CAN_RESTART, on_cluster(Permission.CAN_MANAGE, "configured_cluster_id"))
_DETAILS = Group("gpu_clusters", lambda ctx: ctx.services.v1_details, "/v1/clusters", dialect=V1, errors=(404,))
_READS = Group("gpu_clusters", lambda ctx: ctx.services.v1_clusters.reads, "/v1/clusters", needs=CAN_ATTACH, dialect=V1)
_CLUSTERS = Group(
    "gpu_clusters", lambda ctx: ctx.services.v1_clusters, "/v1/clusters", dialect=V1, errors=(404, 409, 422, 500, 504)
)
OPERATIONS: tuple[Operation, ...] = (
    _CLUSTERS(
        "POST",
        _create,
        "Create a cluster from a number of GPUs, cores and memory",
        name="create",
        needs=Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE),
        response=v1.V1ClusterAnswer,
        statuses=(201,),
        from_headers=_KEY,
        makes_work=True,
        errors=(422,),
    ),
    _READS(
        "GET",
        _list,
        "Clusters in numbered pages, with filters, search and order",
        name="list",
        needs=on_cluster(Permission.CAN_ATTACH_TO, EVERY),
        response=v1.V1ClusterPageAnswer,
    ),
    _DETAILS(
        "GET /{cluster_id}",
        _get,
        "One cluster",
        name="get",
        needs=(CAN_ATTACH, on_cluster(Permission.CAN_MANAGE, "read_cluster_id")),
        response=v1.V1ClusterAnswer,
    ),
    _DETAILS(
        "GET /{cluster_id}/metrics",
        _metrics,
        "What a cluster's nodes use, now and over a window of time",
        name="metrics",
        needs=CAN_ATTACH,
    ),
    _CLUSTERS(
        "POST /{cluster_id}/start",
        _start,
        "Configure and start a stopped cluster",
        name="start",
        needs=_BEGIN,
        response=v1.V1ClusterAnswer,
        statuses=(202, 200),
        from_headers=_KEY,
        makes_work=True,
    ),
    _CLUSTERS(
        "POST /{cluster_id}/restart",
        _restart,
        "Configure and restart a running cluster",
        name="restart",
        needs=_BEGIN,
        response=v1.V1ClusterAnswer,
        statuses=(202, 200),
        from_headers=_KEY,
        makes_work=True,
    ),
    _CLUSTERS(
        "POST /{cluster_id}/stop",
        _stop,
        "Stop a cluster; it can be started again",
        name="stop",
        needs=(CAN_RESTART, on_cluster(Permission.CAN_MANAGE, "discarded_cluster_id")),
        response=v1.V1ClusterAnswer,
        statuses=(202, 200),
    ),
    _CLUSTERS(
        "DELETE /{cluster_id}",
        _delete,
        "Permanently delete a cluster",
        name="delete",
        needs=CAN_MANAGE,
        errors=(404, 409, 422),
    ),
    _READS(
        "GET /{cluster_id}/operations/{operation_id}",
        _operation,
        "A cluster's last start, restart or stop, with its phases",
        name="operation",
        errors=(404,),
    ),
    _READS(
        "GET /{cluster_id}/progress",
        _progress,
        "The same as server-sent events, until it has ended",
        name="progress",
        content_type=CONTENT_TYPE,
        errors=(404,),
    ),
)
