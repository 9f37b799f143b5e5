"""Removes old events, runs, node logs and the directories of removed clusters.

The cluster loop removes clusters whose retention is over (`plan.cluster`): that time is their row's `due_ms`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Set

from brickyard.domain.clock import Clock
from brickyard.domain.periodic import Database, Lease, Loop, Periodic, always
from brickyard.storage.directory import Storage
from brickyard.storage.logs import KeptLogs
from brickyard.store.store import Store

DAY_MS = 24 * 3600 * 1000
EVENTS_KEPT_MS = 60 * DAY_MS
RUNS_KEPT_MS = 60 * DAY_MS  # after their end
CHARGES_KEPT_MS = 400 * DAY_MS
EVERY_S = 3600.0
CLUSTERS_S = 60.0  # a listing and one query; the server that ends a cluster may be killed before it removes the directory
_BATCH = 1_000  # rows per transaction, so that other writers do not wait long


class Retention:
    """With several servers, the one for which `held` is true works every hour, and looks every minute for directories of removed
    clusters. The server that removes a cluster removes its directory at once."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        storage: Storage,
        audit_kept_ms: int = 365 * DAY_MS,
        logs_kept_ms: int = 30 * DAY_MS,
        held: Lease = always,
        clusters_s: float = CLUSTERS_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._storage = storage
        self._held = held
        self._audit_kept_ms = audit_kept_ms
        self._logs_kept_ms = logs_kept_ms
        self._clusters = _ClusterSweep(self, held, every_s=clusters_s, database=store)

    def cluster_gone(self) -> None:
        """Sweeps at once, since a removed cluster may have held much data."""
        self._clusters.wake()

    @property
    def loops(self) -> dict[str, Loop]:
        """Each sweep is on its own, whatever becomes of the others."""
        hourly = (self.trim_events, self.trim_runs, self.trim_charges, self.trim_tokens, self.trim_audit, self.sweep_logs)
        return {each.__name__: _Sweep(each, self._store, self._held) for each in hourly} | {"sweep_clusters": self._clusters}

    async def sweep_clusters(self) -> int:
        """Removes the directories of clusters that no longer exist; returns how many. A cluster's row is removed after its last
        node is gone, and ids are not reused, so nobody recreates the directory. What this database has never known stays: it may
        have been restored from a backup that is older than the storage."""
        names = await asyncio.to_thread(self._storage.cluster_directories)
        gone = await self._store.read(lambda tx: tx.clusters.gone(names), background=True)
        for name in sorted(gone):
            with contextlib.suppress(OSError):  # the next sweep tries again
                await asyncio.to_thread(self._storage.remove_cluster, name)
        return len(gone)

    async def trim_events(self) -> int:
        """Removes all expired events, in small steps that can be interrupted; returns how many."""
        before, removed = self._clock.now_ms() - EVENTS_KEPT_MS, 0
        while step := await self._store.write(lambda tx: tx.events.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def trim_audit(self) -> int:
        """Removes expired entries of the audit log; returns how many."""
        before, removed = self._clock.now_ms() - self._audit_kept_ms, 0
        while step := await self._store.write(lambda tx: tx.audit.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def trim_runs(self) -> int:
        """Removes expired runs and everything known about their tasks; returns how many."""
        before, removed = self._clock.now_ms() - RUNS_KEPT_MS, 0
        while step := await self._store.write(lambda tx: tx.runs.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def trim_charges(self) -> int:
        """Removes charges that ended more than 400 days ago; returns how many."""
        before, removed = self._clock.now_ms() - CHARGES_KEPT_MS, 0
        while step := await self._store.write(lambda tx: tx.charges.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def trim_tokens(self) -> int:
        """Removes credentials that expired a day ago; returns how many."""
        before, removed = self._clock.now_ms() - DAY_MS, 0
        while step := await self._store.write(lambda tx: tx.tokens.trim(before, _BATCH), background=True):
            removed += step
        return removed

    async def sweep_logs(self) -> int:
        """Removes logs of nodes that ended too long ago. Logs of removed clusters go one day after the node ended: somebody who
        investigates a problem may have deleted the cluster first. Those of clusters that this database has never known stay.
        Returns how many nodes' logs there were."""
        logs = self._storage.logs
        names = await asyncio.to_thread(logs.clusters)
        known, gone = await self._store.read(lambda tx: (tx.clusters.existing(names), tx.clusters.gone(names)), background=True)
        return await asyncio.to_thread(self._sweep, logs, known, gone)

    def _sweep(self, logs: KeptLogs, known: Set[str], gone: Set[str]) -> int:
        now_ms, removed = self._clock.now_ms(), 0
        for clusters, kept_ms in ((known, self._logs_kept_ms), (gone, min(self._logs_kept_ms, DAY_MS))):
            for cluster in sorted(clusters):
                removed += logs.trim(cluster, before_s=(now_ms - kept_ms) / 1000)
        return removed


class _Sweep(Periodic):
    """Calls a sweep at once and then every hour."""

    again_s = (60.0, EVERY_S)

    def __init__(self, sweep: Callable[[], Coroutine[None, None, int]], database: Database, held: Lease) -> None:
        super().__init__(every_s=EVERY_S, database=database, held=held)
        self._sweep = sweep

    async def run_once(self) -> int:
        return await self._sweep()


class _ClusterSweep(Periodic):
    """Sweeps cluster directories while this server has the lease, and when it has removed a cluster."""

    again_s = (60.0, EVERY_S)

    def __init__(self, retention: Retention, held: Lease, *, every_s: float, database: Database) -> None:
        super().__init__(every_s=every_s, database=database, held=held)
        self._retention = retention

    async def skip(self) -> None:
        if self.woken:
            await self.run_once()

    async def run_once(self) -> int:
        return await self._retention.sweep_clusters()
