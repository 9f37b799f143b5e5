"""The /v1/clusters API: snapshots of workspace directories."""

from __future__ import annotations

import msgspec

from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, CAN_RESTART, Group
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.dialect import V1
from brickyard.clusters.v1.service import RETRY_AFTER_S
from brickyard.domain import snapshots as v1
from brickyard.domain.caller import Caller
from brickyard.features.snapshots.service import SnapshotService


async def _create(snapshots: SnapshotService, caller: Caller, request: v1.CreateSnapshot) -> Reply:
    made = await snapshots.create(caller, request)
    headers = (("retry-after", str(RETRY_AFTER_S)), ("location", f"/v1/snapshots/{made.id}"))
    return Reply(body=msgspec.json.encode(v1.SnapshotAnswer(data=made)), status=202, headers=headers, made=made)


async def _list(snapshots: SnapshotService, caller: Caller, request: v1.ListSnapshots) -> v1.SnapshotPageAnswer:
    return v1.SnapshotPageAnswer(data=await snapshots.list(caller, request))


async def _get(snapshots: SnapshotService, caller: Caller, request: v1.SnapshotId) -> v1.SnapshotAnswer:
    return v1.SnapshotAnswer(data=await snapshots.get(caller, request.snapshot_id))


async def _delete(snapshots: SnapshotService, caller: Caller, request: v1.SnapshotId) -> v1.DeletedSnapshotAnswer:
    await snapshots.delete(caller, request.snapshot_id)
    return v1.DeletedSnapshotAnswer(data=v1.DeletedSnapshot(id=request.snapshot_id))


_SNAPSHOTS = Group("gpu_snapshots", lambda ctx: ctx.services.snapshots, "/v1", dialect=V1)
OPERATIONS: tuple[Operation, ...] = (
    _SNAPSHOTS(
        "POST /clusters/{cluster_id}/snapshots",
        _create,
        "Take a snapshot of a cluster's workspace directory",
        name="create",
        needs=CAN_RESTART,
        response=v1.SnapshotAnswer,
        statuses=(202,),
        makes_work=True,
        errors=(404, 409, 422),
    ),
    _SNAPSHOTS(
        "GET /clusters/{cluster_id}/snapshots",
        _list,
        "A cluster's snapshots in numbered pages, newest first",
        name="list",
        needs=CAN_ATTACH,
        errors=(404,),
    ),
    _SNAPSHOTS("GET /snapshots/{snapshot_id}", _get, "One snapshot", name="get", needs=CAN_ATTACH, errors=(404,)),
    _SNAPSHOTS(
        "DELETE /snapshots/{snapshot_id}", _delete, "Delete a snapshot", name="delete", needs=CAN_MANAGE, errors=(404, 409)
    ),
)
