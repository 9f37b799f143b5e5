"""What is kept for so long and no longer: events, runs, the logs that nodes left, and the directories of clusters.

Clusters that nothing has kept for too long are removed by the cluster loop (`plan.cluster`): their time is their row's `due_ms`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Set
from pathlib import Path

import structlog

from brickyard.agent import files
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import RETENTION_MS
from brickyard.domain.errors import DatabaseTrouble
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

DAY_MS = 24 * 3600 * 1000
EVENTS_KEPT_MS = 60 * DAY_MS
RUNS_KEPT_MS = 60 * DAY_MS  # after their end
EVERY_S = 3600.0
_BATCH = 1_000  # rows of one transaction: other writers wait for no longer than that takes


class Retention:
    """`run` until cancelled. `logs` is the directory with one directory a cluster, and in it one for every node that it had;
    `clusters` the one with what each cluster's nodes share."""

    def __init__(self, *, store: Store, clock: Clock, logs: Path, clusters: Path) -> None:
        self._store = store
        self._clock = clock
        self._logs = logs
        self._clusters = clusters
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
            early.clear()
            try:
                for look in looks:
                    await look()
            except DatabaseTrouble:
                continue
            except Exception:
                log.exception("retention_failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await early.wait()

    async def sweep_clusters(self) -> int:
        """Remove the directories of clusters that are no more; returns how many there were. A cluster's row goes when its last
        node has gone, and ids are not used again: nobody makes the directory anew."""
        names = await asyncio.to_thread(_directories, self._clusters)
        known = await self._store.read(lambda tx: tx.clusters.existing(path.name for path in names), background=True)
        gone = [path for path in names if path.name not in known]
        for path in gone:
            with contextlib.suppress(OSError):  # the next look tries again
                await asyncio.to_thread(files.remove_tree, path)
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
        names = await asyncio.to_thread(_directories, self._logs)
        known = await self._store.read(lambda tx: tx.clusters.existing(path.name for path in names), background=True)
        return await asyncio.to_thread(_sweep, names, known, self._clock.now_ms())


def _directories(place: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in place.iterdir() if path.is_dir() and not path.is_symlink()]
    return []


def _sweep(clusters: list[Path], known: Set[str], now_ms: int) -> int:
    removed = 0
    for cluster in clusters:
        kept_ms = RETENTION_MS if cluster.name in known else DAY_MS
        for node in _directories(cluster):
            # Written once, when the node ends. What vanishes meanwhile, or cannot be removed, is looked at again in an hour.
            with contextlib.suppress(OSError):
                if node.stat().st_mtime * 1000 < now_ms - kept_ms:
                    shutil.rmtree(node)
                    removed += 1
        with contextlib.suppress(OSError):
            cluster.rmdir()  # succeeds only when it is empty
    return removed
