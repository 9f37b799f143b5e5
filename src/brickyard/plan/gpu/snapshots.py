"""What is to be done with workspace directories, and what has come of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from brickyard.domain.cluster import Cluster, Target, WorkspaceTask
from brickyard.domain.events import ClusterEvent, EventDetails, EventType
from brickyard.domain.gpuclusters import DeleteGpuCluster, Problem, RestartGpuCluster, StopGpuCluster
from brickyard.domain.gpusnapshots import SnapshotRow, SnapshotStatus
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.changes import Changed
from brickyard.plan.reasons import simple_reason
from brickyard.plan.starts import STARTING

MAX_SNAPSHOTS = 100  # of one cluster
MAX_NAME = 200
_SHOWN = 140


def restoring(cluster: Cluster, snapshot_id: str) -> Cluster:
    """The cluster, which is to start, with the wish that its workspace directory is restored first."""
    return _with_task(cluster, restore=snapshot_id)


def saving(cluster: Cluster, *, save: str = "", discard: bool = False) -> Cluster:
    """The cluster, which is to restart, with what is to be done between its nodes of before and those that come."""
    return _with_task(cluster, save=save, discard=discard)


def ending(cluster: Cluster, *, save: str = "", discard: bool = False, deletes: bool = False) -> Cluster:
    """The cluster, which is to end or has ended, with what is to be done once it has no node. It has not ended before that."""
    return _with_task(msgspec.structs.replace(cluster, ended=False), save=save, discard=discard, deletes=deletes)


def _with_task(cluster: Cluster, **wanted: Any) -> Cluster:
    task = WorkspaceTask(number=cluster.workbench.task.number + 1, incarnation=cluster.incarnation, **wanted)
    return msgspec.structs.replace(cluster, workbench=msgspec.structs.replace(cluster.workbench, task=task))


def done(cluster: Cluster, number: int, *, now: int, failure: str = "") -> Changed | None:
    """The cluster after its task; None if it has no such task any more. `failure`: why the task could not be done."""
    task = cluster.workbench.task
    if not task.pending or task.number != number:
        return None
    task = msgspec.structs.replace(task, ended_ms=now, failure=failure)
    after = msgspec.structs.replace(cluster, workbench=msgspec.structs.replace(cluster.workbench, task=task))
    if task.deletes and failure:
        message = f"The cluster was not deleted, because its final snapshot failed: {failure}"
        return Changed(msgspec.structs.replace(after, deleted_ms=0, state_message=message))
    if cluster.target is Target.TERMINATED:
        return Changed(after)
    if not failure:
        return Changed(msgspec.structs.replace(after, state_message=STARTING))
    message = f"The workspace directory could not be restored from snapshot {task.restore}: {failure}. It is as it was before."
    if not task.restore:
        message = f"The cluster did not restart, because its snapshot failed: {failure}. Its files are there."
    reason = simple_reason(TerminationReasonCode.STORAGE_DOWNLOAD_FAILURE, databricks_error_message=message)
    ended = msgspec.structs.replace(
        after,
        target=Target.TERMINATED,
        ended=False,
        restarting=False,
        terminating_ms=now,
        termination_reason=reason,
        state_message=message,
    )
    event = ClusterEvent(
        cluster_id=cluster.cluster_id, timestamp=now, type=EventType.TERMINATING, details=EventDetails(reason=reason)
    )
    return Changed(ended, (event,))


# -- requests --------------------------------------------------------------------------------------------------------


def problems_of_restore(
    cluster_id: str, snapshot_id: str, found: SnapshotRow | None, *, field: str, max_bytes: int, storage_gb: int = 0
) -> list[Problem]:
    """What is in the way of restoring a snapshot on a cluster. `storage_gb`: what its directory may take; 0: no limit."""
    shown = snapshot_id[:_SHOWN]
    if found is None:
        return [Problem(field=field, reason="there is no such snapshot", requested=shown)]
    if found.cluster_id != cluster_id:
        reason = f"it is a snapshot of cluster {found.cluster_id}; it can be restored only there"
        return [Problem(field=field, reason=reason, requested=shown)]
    if found.status is not SnapshotStatus.AVAILABLE:
        why = f": {found.reason}" if found.reason else ""
        return [Problem(field=field, reason=f"the snapshot is {found.status.value}{why}; it must be available", requested=shown)]
    if found.size_bytes > max_bytes:
        reason = "the snapshot is larger than snapshot_gb allows"
        return [Problem(field=field, reason=reason, requested=found.size_bytes, available=max_bytes)]
    if storage_gb and found.size_bytes > storage_gb << 30:
        reason = f"the snapshot is larger than the cluster's storage_gb, {storage_gb}"
        return [Problem(field=field, reason=reason, requested=found.size_bytes, available=storage_gb << 30)]
    return []


def problems_of_name(name: str | None, *, field: str = "snapshot_name") -> list[Problem]:
    """What is wrong with the name of a snapshot."""
    if name is None or (1 <= len(name) <= MAX_NAME and name.isprintable()):
        return []
    return [Problem(field=field, reason=f"it must have 1 to {MAX_NAME} printable characters", requested=name[:_SHOWN])]


def problems_of_saving(request: StopGpuCluster | RestartGpuCluster | DeleteGpuCluster) -> list[Problem]:
    """What contradicts itself in what a stop, a restart or a deletion asks for about snapshots."""
    found = problems_of_name(request.snapshot_name)
    saves = request.create_final_snapshot if isinstance(request, DeleteGpuCluster) else request.save_state
    if isinstance(request, RestartGpuCluster) and request.restore_from_snapshot is not None:
        asked = {"save_state": request.save_state, "preserve_data": request.preserve_data is False}
        reason = "a restart does this or restore_from_snapshot; leave one of them out, or stop the cluster and start it"
        found += [Problem(field=field, reason=reason) for field, wanted in asked.items() if wanted]
    if request.snapshot_name is not None and not saves:
        needed = "create_final_snapshot" if isinstance(request, DeleteGpuCluster) else "save_state"
        found.append(Problem(field="snapshot_name", reason=f"it has an effect only with {needed}; leave it out, or set that"))
    if isinstance(request, DeleteGpuCluster) and request.preserve_snapshots and request.delete_snapshots:
        found.append(Problem(field="delete_snapshots", reason="it contradicts preserve_snapshots; leave one of them out"))
    if isinstance(request, DeleteGpuCluster) and saves and deletes_snapshots(request):
        found.append(Problem(field="create_final_snapshot", reason="all snapshots are to be deleted; leave one of them out"))
    return found


def deletes_snapshots(request: DeleteGpuCluster) -> bool:
    """Whether a deletion takes the cluster's snapshots along."""
    return bool(request.delete_snapshots) or request.preserve_snapshots is False


def latest(rows: Sequence[SnapshotRow]) -> SnapshotRow | None:
    """The newest available one among those, which are ordered."""
    return next((each for each in rows if each.status is SnapshotStatus.AVAILABLE), None)
