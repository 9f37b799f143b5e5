"""What is kept for so long and no longer: events, runs, the logs that nodes left, and the directories of clusters.

Clusters that nothing has kept for too long are removed by the cluster loop (`plan.cluster`): their time is their row's `due_ms`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Set

import structlog

from brickyard.domain.clock import Clock
from brickyard.domain.cluster import RETENTION_MS
from brickyard.domain.errors import DatabaseTrouble
from brickyard.storage.directory import Storage
from brickyard.storage.logs import KeptLogs
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

DAY_MS = 24 * 3600 * 1000
EVENTS_KEPT_MS = 60 * DAY_MS
RUNS_KEPT_MS = 60 * DAY_MS  # after their end
EVERY_S = 3600.0
LEASE_LOOK_S = 60.0  # a server that does not look asks so often whether it is to
_BATCH = 1_000  # rows of one transaction: other writers wait for no longer than that takes


class Retention:
    """`run` until cancelled. Of several servers the one for which `held` is true looks every hour; the directory of a cluster is
    removed by the server that has ended the cluster."""

    def __init__(self, *, store: Store, clock: Clock, storage: Storage, held: Callable[[], bool] = lambda: True) -> None:
        self._store = store
        self._clock = clock
        self._storage = storage
        self._held = held
        self._gone = asyncio.Event()

    def cluster_gone(self) -> None:
        """Look at once: what a removed cluster held may be much."""
        self._gone.set()

    async def run(self) -> None:
        """Look now and then every hour; at the directories of clusters also when a cluster has gone."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self.trim_events, self.trim_runs, self.sweep_logs))
            group.create_task(self._repeat(self.sweep_clusters, early=self._gone))

    async def _repeat(self, *looks: Callable[[], Awaitable[int]], early: asyncio.Event | None = None) -> None:
        early = early or asyncio.Event()
        while True:
            await self._store.usable()
            held = self._held()
            if held or early.is_set():
                early.clear()
                try:
                    for look in looks:
                        await look()
                except DatabaseTrouble:
                    continue
                except Exception:
                    log.exception("retention_failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S if held else LEASE_LOOK_S):
                    await early.wait()

    async def sweep_clusters(self) -> int:
        """Remove the directories of clusters that are no more; returns how many there were. A cluster's row goes when its last
        node has gone, and ids are not used again: nobody makes the directory anew."""
        names = await asyncio.to_thread(self._storage.cluster_directories)
        known = await self._store.read(lambda tx: tx.clusters.existing(names), background=True)
        gone = [name for name in names if name not in known]
        for name in gone:
            with contextlib.suppress(OSError):  # the next look tries again
                await asyncio.to_thread(self._storage.remove_cluster, name)
        return len(gone)

    async def trim_events(self) -> int:
        """Remove every event whose time is over, in small steps that need not all be taken; returns how many there were."""
        before, removed = self._clock.now_ms() - EVENTS_KEPT_MS, 0
        while step := await self._store.write(lambda tx: tx.events.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def trim_runs(self) -> int:
        """The same for runs, with what is known of their tasks."""
        before, removed = self._clock.now_ms() - RUNS_KEPT_MS, 0
        while step := await self._store.write(lambda tx: tx.runs.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def sweep_logs(self) -> int:
        """Remove logs of nodes that ended 30 days ago, and those of clusters that are no more a day after the node has ended: who
        looks for what went wrong may have deleted the cluster first. Returns how many nodes' logs there were."""
        logs = self._storage.logs
        names = await asyncio.to_thread(logs.clusters)
        known = await self._store.read(lambda tx: tx.clusters.existing(names), background=True)
        return await asyncio.to_thread(_sweep, logs, names, known, self._clock.now_ms())


def _sweep(logs: KeptLogs, clusters: list[str], known: Set[str], now_ms: int) -> int:
    removed = 0
    for cluster in clusters:
        oldest_s = (now_ms - (RETENTION_MS if cluster in known else DAY_MS)) / 1000
        removed += logs.trim(cluster, before_s=oldest_s)
    return removed
