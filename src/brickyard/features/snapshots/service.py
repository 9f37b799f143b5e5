"""Snapshots of clusters' workspace directories: asking for them, listing and deleting them."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.v1.problems import missing, permitted, refuse
from brickyard.clusters.v1.snapshots import SnapshotTasks, busy
from brickyard.domain.access import ObjectKind, Permission, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.clock import rfc3339
from brickyard.domain.errors import InvalidParameterValue, StateConflict
from brickyard.domain.snapshots import (
    CreateSnapshot,
    ListSnapshots,
    Snapshot,
    SnapshotPage,
    SnapshotRow,
    SnapshotStatus,
    cluster_of,
)
from brickyard.domain.strict import Pagination
from brickyard.plan.snapshots import MAX_SNAPSHOTS
from brickyard.plan.v1.snapshots import problems_of_name
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST_LIMIT = 100


class SnapshotService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, authorizer: Authorizer, tasks: SnapshotTasks) -> None:
        self._store = store
        self._authorizer = authorizer
        self._tasks = tasks

    async def create(self, caller: Caller, request: CreateSnapshot) -> Snapshot:
        """Begins to take a snapshot of a cluster, in whatever state it is."""

        def work(tx: Tx) -> SnapshotRow:
            to = "take snapshots of"
            cluster = permitted(tx, self._authorizer, caller, request.cluster_id, Permission.CAN_RESTART, to=to)
            refuse(problems_of_name(request.name, field="name"))
            if cluster.workbench.task.pending:
                raise busy(cluster, "its workspace directory is being saved or restored")
            if tx.snapshots.count(cluster.cluster_id, SnapshotStatus.CREATING):
                raise busy(cluster, "another snapshot of it is being taken")
            return self._tasks.add(tx, caller, cluster, request.name)

        return view(await self._store.write(work))

    async def list(self, caller: Caller, request: ListSnapshots) -> SnapshotPage:
        """One page of a cluster's snapshots, also of one that was deleted."""
        if request.page < 1:
            raise InvalidParameterValue(f"field 'page': it is {request.page}; it must be at least 1.")
        if not 1 <= request.limit <= MOST_LIMIT:
            raise InvalidParameterValue(f"field 'limit': it is {request.limit}; it must be between 1 and {MOST_LIMIT}.")

        def work(tx: Tx) -> tuple[int, Sequence[SnapshotRow]]:
            rows = tx.snapshots.of_cluster(request.cluster_id, limit=1)
            self._require(tx, caller, Permission.CAN_ATTACH_TO, request.cluster_id, rows, to="see the snapshots of")
            offset = min((request.page - 1) * request.limit, MAX_SNAPSHOTS)  # the database takes no larger number than 64 bits
            rows = tx.snapshots.of_cluster(request.cluster_id, offset=offset, limit=request.limit)
            return tx.snapshots.count(request.cluster_id), rows

        total, rows = await self._store.read(work)
        pages = Pagination(page=request.page, limit=request.limit, total=total, total_pages=-(-total // request.limit))
        return SnapshotPage(snapshots=[view(each) for each in rows], pagination=pages)

    async def get(self, caller: Caller, wanted: str) -> Snapshot:
        """One snapshot."""
        return view(await self._store.read(lambda tx: self._found(tx, caller, Permission.CAN_ATTACH_TO, wanted, to="see")))

    async def delete(self, caller: Caller, wanted: str) -> None:
        """Removes a snapshot."""

        def work(tx: Tx) -> None:
            cluster = tx.clusters.get(cluster_of(wanted))  # locked: nothing begins to use the snapshot meanwhile
            row = self._found(tx, caller, Permission.CAN_MANAGE, wanted, to="delete")
            restored = cluster is not None and cluster.workbench.task.pending and cluster.workbench.task.restore == wanted
            if row.status is SnapshotStatus.CREATING or restored:
                raise StateConflict(
                    f"Snapshot {row.snapshot_id} is being {'restored' if restored else 'created'}. Delete it when that is over.",
                    current_state=row.status.value,
                    required_state=SnapshotStatus.AVAILABLE.value,
                )
            tx.snapshots.delete(row.snapshot_id)

        await self._store.write(work)
        self._tasks.collector.collect_soon()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _found(self, tx: Tx, caller: Caller, permission: Permission, wanted: str, *, to: str) -> SnapshotRow:
        row = tx.snapshots.get(wanted)
        rows = [row] if row is not None else []
        self._require(tx, caller, permission, cluster_of(wanted), rows, to=f"{to} snapshots of", wanted=("snapshot", wanted))
        if row is None:
            raise missing("snapshot", wanted)
        return row

    def _require(
        self,
        tx: Tx,
        caller: Caller,
        permission: Permission,
        cluster_id: str,
        rows: Sequence[SnapshotRow],
        *,
        to: str,
        wanted: tuple[str, str] = ("", ""),
    ) -> None:
        """Raises unless the caller has the permission on the snapshots' cluster. When that is gone, only its last owner and
        administrators have it."""
        cluster = tx.clusters.get(cluster_id)
        if cluster is not None and not cluster.deleted_ms:
            on = of_cluster(cluster)
        elif rows:
            on = SecurableObject(ObjectKind.CLUSTER, cluster_id, rows[0].owner)
        else:
            raise missing(*(wanted if wanted[0] else ("cluster", cluster_id)))
        self._authorizer.require(tx, caller, permission, on, to=to)


def view(row: SnapshotRow) -> Snapshot:
    """A snapshot as the API shows it."""
    return Snapshot(
        id=row.snapshot_id,
        cluster_id=row.cluster_id,
        name=row.name,
        status=row.status,
        reason=row.reason,
        created_by=row.user_name,
        created_at=rfc3339(row.created_ms),
        taken_at=rfc3339(row.taken_ms) if row.taken_ms else None,
        size_bytes=row.size_bytes,
        stored_bytes=row.stored_bytes,
        files=row.files,
        left_out=row.left_out,
        sha256=row.sha256,
        configuration=row.configuration,
    )
