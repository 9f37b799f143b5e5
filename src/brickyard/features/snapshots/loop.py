"""Takes and restores snapshots of workspace directories, and removes what is no longer needed.

Rows say what is to be done: snapshots that are being created, and clusters with a task (`WorkspaceTask`). One server at a time
does it, each job in a process of its own (`storage/snapshots/`). All of it can be cut off anywhere and be repeated, by this or
another server.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
import structlog

from brickyard.access.principals import principal_of
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.domain.quotas import ByteQuota
from brickyard.domain.snapshots import SnapshotRow, SnapshotStatus, cluster_of
from brickyard.domain.wakeups import Wake
from brickyard.machine.disk import text
from brickyard.plan.snapshots import done, latest, restored_so_far
from brickyard.reconcile.aside import Aside
from brickyard.storage.directory import Storage, holds_anything
from brickyard.storage.snapshots import job as jobs
from brickyard.storage.snapshots.job import Job, JobFailed, JobKind, Named, manifests
from brickyard.store.bells import cluster_bells
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

POLL_S = 15.0  # the store tells of work; this finds what nobody told, such as that of a server that has just died
AT_ONCE = 2
SEEN = 100  # of what waits
TELL_S = 2.0  # between two reports of progress
COLLECT_S = 3600.0
PAUSE_S = 30.0  # before something is tried again that failed without a reason of its own
DAY_MS = 24 * 3600 * 1000
FAILED_KEPT_MS = 30 * DAY_MS


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: of the files in one snapshot, of all chunks, and that stay free on the disk. `kept_ms`: how long snapshots are kept;
    0: until somebody deletes them."""

    one: int
    all: int
    min_free: int
    kept_ms: int = 0


class SnapshotWork(Periodic):
    """With several servers, the one for which `held` is true works. `wake_cluster` asks for a pass over a
    cluster."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        storage: Storage,
        limits: SnapshotLimits,
        wake_cluster: Wake[str],
        held: Lease = always,
    ) -> None:
        super().__init__(every_s=POLL_S, database=store, held=held)
        self._store = store
        self._clock = clock
        self._storage = storage
        self.limits = limits
        self._wake_cluster = wake_cluster
        self._bells = cluster_bells(store)
        self._running: dict[str, asyncio.Task[None]] = {}  # by cluster: one thing at a time
        self._not_before: dict[str, float] = {}
        self._aside = Aside[str]("snapshot_read")
        self._collect_at = time.monotonic()
        store.on_commit(lambda changes: self.wake() if changes.snapshots else None)
        store.on_gap(self.wake)

    def collect_soon(self) -> None:
        """Snapshots were deleted: their room is to be given back."""
        self._collect_at = time.monotonic()
        self.wake()

    async def skip(self) -> None:
        """End the work: another server has taken over."""
        await self.end()

    async def end(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def run_once(self) -> None:
        clusters, snapshots = await self._store.read(self._waiting, background=True)
        for cluster in clusters:
            self._begin(cluster.cluster_id, partial(self._do, cluster))
        for row in snapshots:
            if not row.tasked:  # else it is a part of its cluster's task
                self._begin(row.cluster_id, partial(self._take_one, row))
        if time.monotonic() >= self._collect_at and not self._running:
            self._collect_at = time.monotonic() + COLLECT_S
            self._begin("", self.collect)

    def _waiting(self, tx: Tx) -> tuple[list[Cluster], list[SnapshotRow]]:
        """What there is to do."""
        clusters, snapshots = list[Cluster](), list[SnapshotRow]()
        for key in self._aside.ready(tx.clusters.with_tasks(SEEN)):
            with self._aside.around(key):
                clusters += [each] if (each := tx.clusters.get(key)) is not None else []
        for key in self._aside.ready(tx.snapshots.creating(SEEN)):
            with self._aside.around(key):
                snapshots += [row] if (row := tx.snapshots.get(key)) is not None else []
        return clusters, snapshots

    def _begin(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        busy = key in self._running or len(self._running) >= AT_ONCE
        if not busy and time.monotonic() >= self._not_before.get(key, 0):
            self._running[key] = asyncio.create_task(self._guarded(key, work))

    async def _guarded(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work. What fails without a reason is tried again a little later."""
        try:
            await work()
            self._not_before.pop(key, None)
        except DatabaseTrouble:
            pass
        except Exception:
            log.exception("snapshot_work_failed", cluster_id=key)
            self._not_before[key] = time.monotonic() + PAUSE_S
        finally:
            del self._running[key]
            self.wake()

    # -- tasks of clusters -------------------------------------------------------------------------------------------

    async def _do(self, cluster: Cluster) -> None:
        """Does what a cluster's task says."""
        task, failure = cluster.workbench.task, ""
        row: SnapshotRow | None = None
        try:
            if task.restore:
                await self._restore(cluster)
            if task.save and (row := await self._store.read(lambda tx: tx.snapshots.get(task.save), background=True)) is not None:
                row = await self._take(row)
                failure = row.reason
            if task.discard and not failure:
                await jobs.run(self._job("discard", cluster.cluster_id, number=task.number))
        except JobFailed as error:
            failure = str(error)

        def finish(tx: Tx) -> None:
            now = tx.clusters.get(cluster.cluster_id)
            changed = done(now, task.number, now=self._clock.now_ms(), failure=failure) if now is not None else None
            if changed is not None and row is not None:
                tx.snapshots.finish(row)
            if changed is not None:
                for event in changed.events:
                    tx.events.append(event)
                tx.clusters.update(changed.cluster)
                tx.clusters.wake(cluster.cluster_id)

        await self._store.write(finish, background=True)
        self._wake_cluster(cluster.cluster_id)

    async def _restore(self, cluster: Cluster) -> None:
        """Restores the directory, unless the cluster is to end meanwhile: then it stays as it was. Raises JobFailed."""
        task = cluster.workbench.task
        row = await self._store.read(lambda tx: tx.snapshots.get(task.restore), background=True)
        if row is None:
            raise JobFailed("the snapshot was deleted")
        asked = self._job("restore", cluster.cluster_id, number=task.number)
        asked = msgspec.structs.replace(asked, snapshot=Named(row.snapshot_id, row.sha256), max_bytes=self.limits.one)
        with self._bells.of(cluster.cluster_id) as bell:
            working = asyncio.create_task(jobs.run(asked, progress=self._teller(cluster, row.size_bytes)))
            try:
                while not working.done() and await self._still_wanted(cluster):
                    rung = asyncio.create_task(bell.wait())
                    await asyncio.wait((working, rung), return_when=asyncio.FIRST_COMPLETED, timeout=TELL_S)
                    rung.cancel()
                    bell.clear()
                if working.done():
                    working.result()
                    return
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
        await jobs.run(self._job("give_up", cluster.cluster_id, number=task.number))

    async def _still_wanted(self, cluster: Cluster) -> bool:
        now = await self._store.read(lambda tx: tx.clusters.get(cluster.cluster_id), background=True)
        return now is not None and now.target is Target.RUNNING and now.incarnation == cluster.incarnation

    def _teller(self, cluster: Cluster, total: int) -> Callable[[int], Awaitable[None]]:
        """Shows from time to time how far a restore is."""
        at = 0.0

        async def tell(read: int) -> None:
            nonlocal at
            if time.monotonic() < at:
                return
            at = time.monotonic() + TELL_S

            def work(tx: Tx) -> None:
                now = tx.clusters.get(cluster.cluster_id)
                if now is not None and now.workbench.task == cluster.workbench.task and now.target is Target.RUNNING:
                    tx.clusters.update(restored_so_far(now, text(read), of=text(total)))

            with contextlib.suppress(DatabaseTrouble):
                await self._store.write(work, background=True)

        return tell

    # -- snapshots ---------------------------------------------------------------------------------------------------

    async def _take_one(self, row: SnapshotRow) -> None:
        """Takes a snapshot that somebody has asked for, of a cluster in any state."""
        ended = await self._take(row)

        def finish(tx: Tx) -> None:
            cluster = tx.clusters.get(row.cluster_id)
            gone = cluster is None or bool(cluster.deleted_ms)  # and so, perhaps, was its directory
            failed = msgspec.structs.replace(row, status=SnapshotStatus.FAILED, reason="the cluster was deleted")
            tx.snapshots.finish(failed if gone else ended)

        await self._store.write(finish, background=True)

    async def _take(self, row: SnapshotRow) -> SnapshotRow:
        """Takes a snapshot. Returns the row as it is then, available or failed."""

        def read(tx: Tx) -> tuple[Sequence[SnapshotRow], bool]:
            return tx.snapshots.of_cluster(row.cluster_id), _is_admin(tx, row.user_name)

        rows, is_admin = await self._store.read(read, background=True)
        before = latest(rows)
        asked = msgspec.structs.replace(
            self._job("take", row.cluster_id),
            snapshot=Named(row.snapshot_id, ""),
            before=Named(before.snapshot_id, before.sha256) if before is not None else None,
            max_bytes=self.limits.one,
            max_stored=ByteQuota(self.limits.all).limit(is_admin=is_admin),
        )
        try:
            taken = await jobs.run(asked)
        except JobFailed as error:
            return msgspec.structs.replace(row, status=SnapshotStatus.FAILED, reason=str(error), taken_ms=self._clock.now_ms())
        return msgspec.structs.replace(
            row,
            status=SnapshotStatus.AVAILABLE,
            taken_ms=self._clock.now_ms(),
            size_bytes=taken.bytes,
            stored_bytes=taken.stored,
            files=taken.files,
            left_out=taken.left_out,
            sha256=taken.sha256,
        )

    async def collect(self) -> None:
        """Removes snapshots that are too old, and every chunk that no snapshot names."""
        now = self._clock.now_ms()

        def trim(tx: Tx) -> None:
            tx.snapshots.trim(SnapshotStatus.FAILED, now - FAILED_KEPT_MS)
            if self.limits.kept_ms:
                tx.snapshots.trim(SnapshotStatus.AVAILABLE, now - self.limits.kept_ms)

        await self._store.write(trim, background=True)
        if not await asyncio.to_thread(holds_anything, self._storage.snapshots):
            return  # a new workspace, or one without snapshots: a process would take longer to start than all else

        async def names() -> list[str]:
            stored = await asyncio.to_thread(lambda: [path.name for path in manifests(self._storage.snapshots).iterdir()])
            return await self._store.read(lambda tx: _kept(tx, stored), background=True)

        try:
            await jobs.run(self._job("collect"), names=names)
        except JobFailed as error:
            log.warning("snapshots_not_collected", why=str(error))

    def _job(self, kind: JobKind, cluster_id: str = "", *, number: int = 0) -> Job:
        directory = str(self._storage.workspaces / cluster_id) if cluster_id else ""
        return Job(
            kind=kind, store=str(self._storage.snapshots), directory=directory, number=number, min_free=self.limits.min_free
        )


def _kept(tx: Tx, stored: Sequence[str]) -> list[str]:
    """The names of the manifests that may be needed, and those of clusters that this database has never known."""
    clusters = {cluster_of(name) for name in stored} - {""}
    strange = clusters - tx.clusters.existing(clusters) - tx.clusters.gone(clusters)
    return [*tx.snapshots.names(), *(name for name in stored if cluster_of(name) in strange)]


def _is_admin(tx: Tx, user_name: str) -> bool:
    user = tx.users.get(user_name)
    return user is not None and principal_of(tx, user).is_admin
