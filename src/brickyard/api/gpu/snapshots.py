"""The /v1/clusters API: snapshots of workspace directories."""

from __future__ import annotations

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import Operation
from brickyard.api.gpu.operations import MANAGE, RESTART, SEE, declared
from brickyard.domain import gpusnapshots as gpu
from brickyard.services.caller import Caller
from brickyard.services.gpu.service import RETRY_AFTER_S


async def _create(ctx: ApiContext, caller: Caller, request: gpu.CreateSnapshot) -> Reply:
    made = await ctx.services.gpu_clusters.snapshots.create(caller, request)
    headers = (("retry-after", str(RETRY_AFTER_S)), ("location", f"/v1/snapshots/{made.id}"))
    return Reply(body=msgspec.json.encode(gpu.SnapshotAnswer(data=made)), status=202, headers=headers, made=made)


async def _list(ctx: ApiContext, caller: Caller, request: gpu.ListSnapshots) -> gpu.SnapshotPageAnswer:
    return gpu.SnapshotPageAnswer(data=await ctx.services.gpu_clusters.snapshots.list(caller, request))


async def _get(ctx: ApiContext, caller: Caller, request: gpu.SnapshotId) -> gpu.SnapshotAnswer:
    return gpu.SnapshotAnswer(data=await ctx.services.gpu_clusters.snapshots.get(caller, request.snapshot_id))


async def _delete(ctx: ApiContext, caller: Caller, request: gpu.SnapshotId) -> gpu.DeletedSnapshotAnswer:
    await ctx.services.gpu_clusters.snapshots.delete(caller, request.snapshot_id)
    return gpu.DeletedSnapshotAnswer(data=gpu.DeletedSnapshot(id=request.snapshot_id))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_snapshots.create",
        "POST",
        "/v1/clusters/{cluster_id}/snapshots",
        _create,
        "Take a snapshot of a cluster's workspace directory",
        request=gpu.CreateSnapshot,
        response=gpu.SnapshotAnswer,
        needs=RESTART,
        statuses=(202,),
        errors=(404, 409, 422),
        makes_work=True,
    ),
    declared(
        "gpu_snapshots.list",
        "GET",
        "/v1/clusters/{cluster_id}/snapshots",
        _list,
        "A cluster's snapshots in numbered pages, newest first",
        request=gpu.ListSnapshots,
        response=gpu.SnapshotPageAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_snapshots.get",
        "GET",
        "/v1/snapshots/{snapshot_id}",
        _get,
        "One snapshot",
        request=gpu.SnapshotId,
        response=gpu.SnapshotAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_snapshots.delete",
        "DELETE",
        "/v1/snapshots/{snapshot_id}",
        _delete,
        "Delete a snapshot",
        request=gpu.SnapshotId,
        response=gpu.DeletedSnapshotAnswer,
        needs=MANAGE,
        errors=(404, 409),
    ),
)
