"""What is to be done with workspace directories, and what has come of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from brickyard.domain.cluster import Cluster, Target, WorkspaceTask
from brickyard.domain.snapshots import SnapshotRow, SnapshotStatus
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.changes import Changed, terminated
from brickyard.plan.reasons import simple_reason
from brickyard.plan.starts import STARTING

MAX_SNAPSHOTS = 100  # of one cluster


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


def restored_so_far(cluster: Cluster, read: str, *, of: str) -> Cluster:
    """The cluster, which waits for its workspace directory, with how much of the snapshot has been read, as people read sizes."""
    return msgspec.structs.replace(cluster, state_message=f"Restoring the workspace directory: {read} of {of}")


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
    return terminated(after, now, reason, message)


def latest(rows: Sequence[SnapshotRow]) -> SnapshotRow | None:
    """The newest available one among those, which are ordered."""
    return next((each for each in rows if each.status is SnapshotStatus.AVAILABLE), None)
