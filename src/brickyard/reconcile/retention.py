"""The retention of events: what is older than Databricks keeps is removed.

Clusters that nothing has kept for too long are removed by the cluster loop (`plan.cluster`): their time is their row's `due_ms`.
"""

from __future__ import annotations

import asyncio

import structlog

from brickyard.domain.clock import Clock
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

EVENTS_KEPT_MS = 60 * 24 * 3600 * 1000
EVERY_S = 3600.0
_BATCH = 1_000  # rows of one transaction: other writers wait for no longer than that takes


class EventRetention:
    """`run` until cancelled."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Trim now and then every hour."""
        while True:
            try:
                await self.trim()
            except Exception:
                log.exception("event_retention_failed")
            await asyncio.sleep(EVERY_S)

    async def trim(self) -> int:
        """Remove every event whose time is over, in small steps that need not all be taken; returns how many there were."""
        before, removed = self._clock.now_ms() - EVENTS_KEPT_MS, 0
        while step := await self._store.write(lambda tx: tx.events.trim(before, _BATCH), background=True):
            removed += step
        return removed
