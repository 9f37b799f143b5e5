"""Snapshots of clusters' workspace directories: asking for them, listing and deleting them.

`reconcile/snapshots.py` takes and restores them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from brickyard.domain.access import ObjectKind, Permission, SecurableObject
from brickyard.domain.clock import Clock, Ids, rfc3339
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import InvalidParameterValue, StateConflict
from brickyard.domain.snapshots import (
    CreateSnapshot,
    ListSnapshots,
    Snapshot,
    SnapshotPage,
    SnapshotRow,
    SnapshotStatus,
    cluster_of,
    snapshot_id,
)
from brickyard.domain.strict import Pagination, Problem
from brickyard.domain.v1.clusters import DeleteV1Cluster, RestartV1Cluster, StartV1Cluster, StopV1Cluster
from brickyard.plan.snapshots import MAX_SNAPSHOTS, ending, restoring, saving
from brickyard.plan.v1.progress import state_of
from brickyard.plan.v1.snapshots import deletes_snapshots, problems_of_name, problems_of_restore
from brickyard.plan.v1.translate import configuration
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import of_cluster
from brickyard.services.caller import Caller
from brickyard.services.clusters.catalogue import Offers
from brickyard.services.v1.problems import missing, permitted, refuse
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST_LIMIT = 100
_WORD = 8


class Collector(Protocol):
    """The work in the background that gives room back: `SnapshotWork`."""

    def collect_soon(self) -> None:
        """Snapshots were deleted."""
        ...


class SnapshotService:
    """One per server. Methods raise ApiError. `max_bytes`: of the files in one snapshot."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        authorizer: Authorizer,
        offers: Offers,
        max_bytes: int,
        collector: Collector,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._offers = offers
        self._max_bytes = max_bytes
        self._collector = collector

    async def create(self, caller: Caller, request: CreateSnapshot) -> Snapshot:
        """Begins to take a snapshot of a cluster, in whatever state it is."""

        def work(tx: Tx) -> SnapshotRow:
            to = "take snapshots of"
            cluster = permitted(tx, self._authorizer, caller, request.cluster_id, Permission.CAN_RESTART, to=to)
            refuse(problems_of_name(request.name, field="name"))
            if cluster.workbench.task.pending:
                raise _busy(cluster, "its workspace directory is being saved or restored")
            if tx.snapshots.count(cluster.cluster_id, SnapshotStatus.CREATING):
                raise _busy(cluster, "another snapshot of it is being taken")
            return self.add(tx, caller, cluster, request.name)

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
            offset = (request.page - 1) * request.limit
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
        self.collect_soon()

    def collect_soon(self) -> None:
        """Snapshots were deleted: their room is to be given back."""
        self._collector.collect_soon()

    # -- for the calls of clusters -----------------------------------------------------------------------------------

    def problems_of_restore(self, tx: Tx, cluster_id: str, wanted: str | None, *, storage_gb: int) -> Sequence[Problem]:
        """What is in the way of restoring the snapshot on its cluster, whose directory may take `storage_gb`; 0: no limit."""
        if wanted is None:
            return []
        found = tx.snapshots.get(wanted)
        return problems_of_restore(
            cluster_id, wanted, found, field="restore_from_snapshot", max_bytes=self._max_bytes, storage_gb=storage_gb
        )

    def end(self, tx: Tx, caller: Caller, cluster: Cluster, request: StopV1Cluster | DeleteV1Cluster) -> None:
        """Writes what is to be done with the workspace directory of a cluster that is to end, and with its snapshots, besides
        what is to be done already."""
        if isinstance(request, DeleteV1Cluster) and deletes_snapshots(request):
            tx.snapshots.delete_all(cluster.cluster_id)
        saves = request.create_final_snapshot if isinstance(request, DeleteV1Cluster) else request.save_state
        discards = isinstance(request, StopV1Cluster) and request.preserve_data is False
        known = cluster.workbench.task
        if not (saves or discards):
            return
        if known.pending and known.restore:
            raise _busy(cluster, "its workspace directory is being restored; wait, or do not ask for one")
        save = known.save if known.pending else ""
        if saves and not save:
            save = self.add(tx, caller, cluster, request.snapshot_name, tasked=True).snapshot_id
        deletes = bool(saves) and isinstance(request, DeleteV1Cluster)
        if known.pending and (known.save, known.discard or not discards, known.deletes or not deletes) == (save, True, True):
            return  # a repeated request
        tx.clusters.update(ending(cluster, save=save, discard=discards, deletes=deletes))
        tx.clusters.wake(cluster.cluster_id)

    def begin(self, tx: Tx, caller: Caller, cluster: Cluster, request: StartV1Cluster) -> None:
        """Writes what is to be done with the workspace directory of a cluster that starts or restarts, while it has no node."""
        if request.restore_from_snapshot is not None:
            tx.clusters.update(restoring(cluster, request.restore_from_snapshot))
            return
        if not isinstance(request, RestartV1Cluster):
            return
        discards = request.preserve_data is False
        if request.save_state or discards:
            row = self.add(tx, caller, cluster, request.snapshot_name, tasked=True) if request.save_state else None
            tx.clusters.update(saving(cluster, save=row.snapshot_id if row is not None else "", discard=discards))

    def add(self, tx: Tx, caller: Caller, cluster: Cluster, name: str | None, *, tasked: bool = False) -> SnapshotRow:
        """A new snapshot, to be taken."""
        if tx.snapshots.count(cluster.cluster_id) >= MAX_SNAPSHOTS:
            raise _busy(cluster, f"it has {MAX_SNAPSHOTS} snapshots, which is the maximum; delete some")
        now = self._clock.now_ms()
        row = SnapshotRow(
            snapshot_id=snapshot_id(cluster.cluster_id, self._ids.hex(_WORD)),
            cluster_id=cluster.cluster_id,
            owner=cluster.creator_user_name,
            user_name=caller.user_name,
            name=name or time.strftime("snapshot-%Y%m%d-%H%M%S", time.gmtime(now / 1000)),
            created_ms=now,
            configuration=configuration(cluster, self._offers.node_types()),
            tasked=tasked,
        )
        tx.snapshots.insert(row)
        return row

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


def _busy(cluster: Cluster, why: str) -> StateConflict:
    return StateConflict(
        f"Cluster {cluster.cluster_id} gets no new snapshot now: {why}.", current_state=state_of(cluster).value, required_state=""
    )
