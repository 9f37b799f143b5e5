"""Delays the first `get` of a cluster that starts on a pool, because the cluster may be running within a moment.

Official clients call `get` once after `create`, `start` or `restart`, and then sleep for one to two seconds before the next one.
A cluster on warm nodes is up in less than that. So the first `get` within a second of such a call is answered once the cluster
is up or that second is over; every other `get` at once.
"""

from __future__ import annotations

import asyncio
import time

from brickyard.domain.clock import Monotonic
from brickyard.domain.cluster import Target
from brickyard.store.bells import cluster_bells
from brickyard.store.store import Store
from brickyard.store.tx import Tx

WINDOW_S = 1.3


class FirstLook:
    """For one event loop."""

    def __init__(self, *, store: Store, window_s: float = WINDOW_S, monotonic: Monotonic = time.monotonic) -> None:
        self._store = store
        self._window_s = window_s
        self._monotonic = monotonic
        self._until: dict[str, float] = {}  # oldest first
        self._bells = cluster_bells(store)

    def begin(self, cluster_id: str) -> None:
        """Records that a call may have started the cluster."""
        now = self._monotonic()
        while self._until and (oldest := next(iter(self._until))) and self._until[oldest] <= now:
            del self._until[oldest]
        self._until.pop(cluster_id, None)  # moves it to the end of the order
        self._until[cluster_id] = now + self._window_s

    def due(self, cluster_id: str) -> bool:
        """Whether the next `get` may have to wait for `settle`."""
        return cluster_id in self._until

    async def settle(self, cluster_id: str) -> None:
        """Returns once the cluster is not starting on a pool or its time is over; at once if this is not the first `get`."""
        until = self._until.pop(cluster_id, 0.0)
        if until <= self._monotonic():
            return
        with self._bells.of(cluster_id) as bell:
            while (left := until - self._monotonic()) > 0:
                bell.clear()
                if not await self._store.read(lambda tx: starts_on_pool(tx, cluster_id)):
                    return
                try:
                    async with asyncio.timeout(left):
                        await bell.wait()
                except TimeoutError:
                    return


def starts_on_pool(tx: Tx, cluster_id: str) -> bool:
    """Whether the cluster is starting on nodes of a pool."""
    cluster = tx.clusters.get(cluster_id)
    return cluster is not None and cluster.target is Target.RUNNING and not cluster.up and bool(cluster.spec.instance_pool_id)
