"""What requests of the /v1/clusters dialect ask for about snapshots, and what is wrong with that. Pure."""

from __future__ import annotations

from brickyard.domain.snapshots import SnapshotRow, SnapshotStatus
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import DeleteV1Cluster, RestartV1Cluster, StopV1Cluster

MAX_NAME = 200
_SHOWN = 140


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


def problems_of_saving(request: StopV1Cluster | RestartV1Cluster | DeleteV1Cluster) -> list[Problem]:
    """What contradicts itself in what a stop, a restart or a deletion asks for about snapshots."""
    found = problems_of_name(request.snapshot_name)
    saves = request.create_final_snapshot if isinstance(request, DeleteV1Cluster) else request.save_state
    if isinstance(request, RestartV1Cluster) and request.restore_from_snapshot is not None:
        asked = {"save_state": request.save_state, "preserve_data": request.preserve_data is False}
        reason = "a restart does this or restore_from_snapshot; leave one of them out, or stop the cluster and start it"
        found += [Problem(field=field, reason=reason) for field, wanted in asked.items() if wanted]
    if request.snapshot_name is not None and not saves:
        needed = "create_final_snapshot" if isinstance(request, DeleteV1Cluster) else "save_state"
        found.append(Problem(field="snapshot_name", reason=f"it has an effect only with {needed}; leave it out, or set that"))
    if isinstance(request, DeleteV1Cluster) and request.preserve_snapshots and request.delete_snapshots:
        found.append(Problem(field="delete_snapshots", reason="it contradicts preserve_snapshots; leave one of them out"))
    if isinstance(request, DeleteV1Cluster) and saves and deletes_snapshots(request):
        found.append(Problem(field="create_final_snapshot", reason="all snapshots are to be deleted; leave one of them out"))
    return found


def deletes_snapshots(request: DeleteV1Cluster) -> bool:
    """Whether a deletion takes the cluster's snapshots along."""
    return bool(request.delete_snapshots) or request.preserve_snapshots is False
