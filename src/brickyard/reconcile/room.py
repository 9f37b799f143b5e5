"""Watches the workspace's disk: keeps the database's reserve, measures the workspace's files, and reports a shortage.

Agents watch their own nodes (`agent/watching/watch.py`), which also live while no server does.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import structlog

from brickyard.domain.access import Principal
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.domain.quotas import ByteQuota
from brickyard.machine import measure
from brickyard.machine.disk import FULL, Amount, Disk, Lack, text
from brickyard.machine.held import MAX_ENTRIES, Held, held
from brickyard.machine.pressure import most_inodes
from brickyard.storage.directory import Storage
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

LOOK_S = 1.0
SCAN_S = 60.0  # the workspace's files are counted at least this often; sooner if the disk has filled meanwhile
SCAN_SHARE = 0.05  # share of the time that may go into counting
RESERVE_S = 30.0  # between two checks of the reserve


class DiskRoom(Periodic):
    """Sizes are bytes. `refusal` may be called from any thread.

    Only the server for which `held` is true counts the workspace's files; all servers use its result.
    """

    def __init__(
        self,
        *,
        store: Store,
        storage: Storage,
        data_dir: Path,
        min_free: int,
        dbfs_limit: int,
        held: Lease = always,
    ) -> None:
        """`data_dir` contains the database if that is SQLite."""
        super().__init__(every_s=LOOK_S)
        self._store = store
        self._storage = storage
        self._data_dir = data_dir
        self._held = held
        self._min_free = min_free
        self._quota = ByteQuota(dbfs_limit)
        self.dbfs_limit = dbfs_limit
        self.dbfs_used = storage.dbfs_size()
        self._scanned: tuple[float, float, Disk] | None = None  # when, for how long, and what was free
        self._reserve_due = 0.0
        self._short = False

    def disk(self) -> Disk:
        """The storage's disk."""
        return measure.disk(self._storage.root)

    def shortage(self) -> str:
        """Why little more than ending clusters and deleting files works now, for whoever watches the server; "" if all does."""
        for place in dict.fromkeys((self._data_dir, self._storage.root)):
            disk = measure.disk(place)
            if left := disk.shortage(disk.floor(self._min_free).at_least(FULL)):
                return (
                    f"The workspace's disk is full: {left}. Clusters can be terminated and files deleted; what needs more room "
                    "fails."
                )
        return ""

    def refusal(self, principal: Principal) -> str:
        """Why that user may add nothing to the workspace's files; "" if they may."""
        disk = self.disk()
        floor = disk.floor(self._min_free)
        if (lack := disk.lack(floor)) is not None:
            return (
                f"The workspace's disk is full: {disk.left(lack)}; {floor.text(lack)} must stay free (min_free_disk_gb). Delete "
                "files, or enlarge the disk."
            )
        if self.dbfs_used.size > self._quota.limit(is_admin=principal.is_admin):
            reserve = "" if principal.is_admin else f", of which the last {text(self._quota.reserve)} are for administrators"
            return (
                f"The workspace's files take {text(self.dbfs_used.size)}; the limit is {text(self.dbfs_limit)} (dbfs_gb)"
                f"{reserve}. Delete some, or ask an administrator to raise dbfs_gb."
            )
        if self.dbfs_used.inodes > (most := most_inodes(disk.total.inodes, MAX_ENTRIES)):
            return f"The workspace has {self.dbfs_used.inodes:,} files and directories; the limit is {most:,}. Delete some."
        return ""

    def _is_over(self, disk: Disk) -> bool:
        """Whether nodes may add nothing to the workspace's files: they are not known to be an administrator's."""
        too_many = self.dbfs_used.inodes > most_inodes(disk.total.inodes, MAX_ENTRIES)
        return self.dbfs_used.size > self._quota.limit(is_admin=False) or too_many

    async def run_once(self) -> None:
        disk = self.disk()
        lack = disk.lack(disk.floor(self._min_free))
        if (lack is not None) != self._short:
            (log.warning if lack else log.info)("disk_is_short" if lack else "disk_has_room", left=disk.left(lack or Lack.SIZE))
        self._short = lack is not None
        database = measure.disk(self._data_dir)
        has_room = database.free.size >= database.floor(self._min_free).size  # the database's files exist: it takes no inode
        if has_room and time.monotonic() >= self._reserve_due:
            await self._store.keep_reserve()
            self._reserve_due = time.monotonic() + RESERVE_S
        await asyncio.to_thread(self._count, disk)

    def _count(self, disk: Disk) -> None:
        """Runs on a thread."""
        if not self._held():
            self._scanned, self.dbfs_used = None, self._storage.dbfs_size()
            return
        now = time.monotonic()
        if self._scanned is not None:
            at, took, then = self._scanned
            over = self._is_over(disk)  # check whether something was deleted
            if now - at < (max(LOOK_S, took / SCAN_SHARE) if over or disk.has_lost(then) else SCAN_S):
                return
        files = sum((held(tree) for tree in (*self._storage.trees, self._storage.metastore, self._storage.multipart)), Held())
        self.dbfs_used = Amount(files.size, files.entries)
        self._scanned = (now, time.monotonic() - now, disk)
        self._storage.tell_dbfs_size(self.dbfs_used, full=self._is_over(disk))
