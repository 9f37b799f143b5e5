"""Snapshots of clusters' workspace directories, within the transactions of calls that end, start or restart clusters.

`features/snapshots/loop.py` takes and restores them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from brickyard.clusters.catalogue import Offers
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import StateConflict
from brickyard.domain.snapshots import SnapshotRow, snapshot_id
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import DeleteV1Cluster, RestartV1Cluster, StartV1Cluster, StopV1Cluster
from brickyard.plan.snapshots import MAX_SNAPSHOTS, ending, restoring, saving
from brickyard.plan.v1.progress import state_of
from brickyard.plan.v1.snapshots import deletes_snapshots, problems_of_restore
from brickyard.plan.v1.translate import configuration
from brickyard.store.tx import Tx

_WORD = 8


class Collector(Protocol):
    """The work in the background that gives room back: `SnapshotWork`."""

    def collect_soon(self) -> None:
        """Snapshots were deleted."""
        ...


class SnapshotTasks:
    """One per server. Methods raise ApiError. `max_bytes`: of the files in one snapshot. `collector`: the work in the
    background, which is told when some were deleted."""

    def __init__(self, *, clock: Clock, ids: Ids, offers: Offers, max_bytes: int, collector: Collector) -> None:
        self._clock = clock
        self._ids = ids
        self._offers = offers
        self._max_bytes = max_bytes
        self.collector = collector

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
            raise busy(cluster, "its workspace directory is being restored; wait, or do not ask for one")
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
            raise busy(cluster, f"it has {MAX_SNAPSHOTS} snapshots, which is the maximum; delete some")
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


def busy(cluster: Cluster, why: str) -> StateConflict:
    return StateConflict(
        f"Cluster {cluster.cluster_id} gets no new snapshot now: {why}.", current_state=state_of(cluster).value, required_state=""
    )
