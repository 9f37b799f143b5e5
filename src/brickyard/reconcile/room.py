"""Watches the workspace's disk: keeps the database's reserve, measures the workspace's files, and reports a shortage.

Agents watch their own nodes (`agent/watch.py`), which also live while no server does.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from brickyard.agent.held import held
from brickyard.agent.pressure import disk_floor, text
from brickyard.storage.directory import Storage
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

LOOK_S = 1.0
SCAN_S = 60.0  # the workspace's files are counted at least this often; sooner if the disk has filled meanwhile
SCAN_SHARE = 0.05  # share of the time that may go into counting
SCAN_STEP = 64 << 20  # lost free bytes that trigger an early count
FULL = 1 << 20  # free bytes below which a disk is full, whatever the settings say
RESERVE_S = 30.0  # between two checks of the reserve


class DiskRoom:
    """`run` until cancelled. Sizes are bytes. `refusal` may be called from any thread.

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
        held: Callable[[], bool] = lambda: True,
    ) -> None:
        """`data_dir` contains the database if that is SQLite."""
        self._store = store
        self._storage = storage
        self._data_dir = data_dir
        self._held = held
        self._min_free = min_free
        self.dbfs_limit = dbfs_limit
        self.dbfs_used = storage.dbfs_size()
        self._scanned: tuple[float, float, int] | None = None  # when, for how long, and how much was free
        self._reserve_due = 0.0
        self._short = False

    def disk(self) -> tuple[int, int]:
        """Total and free bytes."""
        there = shutil.disk_usage(self._storage.root)
        return there.total, there.free

    def shortage(self) -> str:
        """Why little more than ending clusters and deleting files works now, for whoever watches the server; "" if all does."""
        for place in dict.fromkeys((self._data_dir, self._storage.root)):
            disk = shutil.disk_usage(place)
            if disk.free < max(disk_floor(disk.total, self._min_free), FULL):
                return (
                    f"The workspace's disk is full: {text(disk.free)} of {text(disk.total)} are free. Clusters can be terminated "
                    "and files deleted; what needs more room fails."
                )
        return ""

    def refusal(self) -> str:
        """Why nothing may be added to the workspace's files; "" if it may."""
        total, free = self.disk()
        floor = disk_floor(total, self._min_free)
        if free < floor:
            return (
                f"The workspace's disk is full: {text(free)} of {text(total)} are free; {text(floor)} must stay free "
                "(min_free_disk_gb). Delete files, or enlarge the disk."
            )
        if self.dbfs_used > self.dbfs_limit:
            return (
                f"The workspace's files take {text(self.dbfs_used)}; the limit is {text(self.dbfs_limit)} (dbfs_gb). Delete "
                "some, or ask an administrator to raise dbfs_gb."
            )
        return ""

    async def run(self) -> None:
        """Checks once a second until cancelled. Logs a repeated error only once."""
        said = ""
        while True:
            try:
                await self.look()
                said = ""
            except Exception as error:
                if str(error) != said:
                    log.warning("disk_look_failed", error=str(error))
                said = str(error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """One check."""
        total, free = self.disk()
        short = free < disk_floor(total, self._min_free)
        if short != self._short:
            (log.warning if short else log.info)(
                "disk_is_short" if short else "disk_has_room", free=text(free), total=text(total)
            )
        self._short = short
        database = shutil.disk_usage(self._data_dir)
        if database.free >= disk_floor(database.total, self._min_free) and time.monotonic() >= self._reserve_due:
            await self._store.keep_reserve()
            self._reserve_due = time.monotonic() + RESERVE_S
        await asyncio.to_thread(self._count, free)

    def _count(self, free: int) -> None:
        """Runs on a thread."""
        if not self._held():
            self._scanned, self.dbfs_used = None, self._storage.dbfs_size()
            return
        now = time.monotonic()
        if self._scanned is not None:
            at, took, free_then = self._scanned
            over = self.dbfs_used > self.dbfs_limit  # check whether something was deleted
            if now - at < (max(LOOK_S, took / SCAN_SHARE) if over or free_then - free >= SCAN_STEP else SCAN_S):
                return
        self.dbfs_used = sum(held(tree).size for tree in (*self._storage.trees, self._storage.metastore))
        self._scanned = (now, time.monotonic() - now, free)
        self._storage.tell_dbfs_size(self.dbfs_used, full=self.dbfs_used > self.dbfs_limit)
