"""The /v1/clusters API: snapshots of workspace directories."""

from __future__ import annotations

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.operations import MANAGE, RESTART, SEE, declared
from brickyard.domain import snapshots
from brickyard.services.caller import Caller
from brickyard.services.v1.service import RETRY_AFTER_S


async def _create(ctx: ApiContext, caller: Caller, request: snapshots.CreateSnapshot) -> Reply:
    made = await ctx.services.v1_clusters.snapshots.create(caller, request)
    headers = (("retry-after", str(RETRY_AFTER_S)), ("location", f"/v1/snapshots/{made.id}"))
    return Reply(body=msgspec.json.encode(snapshots.SnapshotAnswer(data=made)), status=202, headers=headers, made=made)


async def _list(ctx: ApiContext, caller: Caller, request: snapshots.ListSnapshots) -> snapshots.SnapshotPageAnswer:
    return snapshots.SnapshotPageAnswer(data=await ctx.services.v1_clusters.snapshots.list(caller, request))


async def _get(ctx: ApiContext, caller: Caller, request: snapshots.SnapshotId) -> snapshots.SnapshotAnswer:
    return snapshots.SnapshotAnswer(data=await ctx.services.v1_clusters.snapshots.get(caller, request.snapshot_id))


async def _delete(ctx: ApiContext, caller: Caller, request: snapshots.SnapshotId) -> snapshots.DeletedSnapshotAnswer:
    await ctx.services.v1_clusters.snapshots.delete(caller, request.snapshot_id)
    return snapshots.DeletedSnapshotAnswer(data=snapshots.DeletedSnapshot(id=request.snapshot_id))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_snapshots.create",
        "POST",
        "/v1/clusters/{cluster_id}/snapshots",
        _create,
        "Take a snapshot of a cluster's workspace directory",
        request=snapshots.CreateSnapshot,
        response=snapshots.SnapshotAnswer,
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
        request=snapshots.ListSnapshots,
        response=snapshots.SnapshotPageAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_snapshots.get",
        "GET",
        "/v1/snapshots/{snapshot_id}",
        _get,
        "One snapshot",
        request=snapshots.SnapshotId,
        response=snapshots.SnapshotAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_snapshots.delete",
        "DELETE",
        "/v1/snapshots/{snapshot_id}",
        _delete,
        "Delete a snapshot",
        request=snapshots.SnapshotId,
        response=snapshots.DeletedSnapshotAnswer,
        needs=MANAGE,
        errors=(404, 409),
    ),
)
