"""Packs samples and makes old ones coarser (`plan.samples`), and removes those that are older than 30 days."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial

import structlog

from brickyard.domain.clock import Clock
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.domain.samples import pack, unpack
from brickyard.plan.samples import LAST, TIERS, together, windows
from brickyard.reconcile.aside import Aside
from brickyard.store.samples import SampleRow
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

EVERY_S = 60.0
# Each cluster's turn comes once in so many rounds: its window is written anew each time, whatever is added. Reads find samples
# wherever they are.
SHARES = 5
TOGETHER = 10  # clusters in one transaction: a commit costs as much as the work on one of them
TRIM_EVERY = 60  # rounds between two removals


class SamplePacking(Periodic):
    """With several servers, the one for which `held` is true works. A cluster's rows of a tier move in one
    transaction: a server that is killed leaves every sample where it was."""

    def __init__(self, *, store: Store, clock: Clock, held: Lease = always) -> None:
        super().__init__(every_s=EVERY_S, database=store, held=held)
        self._store = store
        self._clock = clock
        self._rounds = 0
        self._aside = Aside[str]("samples")

    async def run_once(self) -> None:
        await self.pack(share=self._rounds % SHARES)
        if self._rounds % TRIM_EVERY == 0:
            await self.trim()
        self._rounds += 1

    async def pack(self, *, share: int | None = None) -> int:
        """Moves the rows that are due to the next tier, of all clusters or of a share of them; returns how many."""
        now, moved = self._clock.now_ms(), 0
        for tier in range(LAST):
            before = now - TIERS[tier].kept_ms
            due = await self._store.read(partial(_due, tier=tier, before_ms=before), background=True)
            due = [each for each in due if share is None or zlib.crc32(each.encode()) % SHARES == share]
            for start in range(0, len(due), TOGETHER):
                moved += sum(await self._aside.together(due[start : start + TOGETHER], partial(self._move, tier, before)))
        return moved

    async def _move(self, tier: int, before_ms: int, cluster_ids: Sequence[str]) -> int:
        work = partial(_move, cluster_ids=cluster_ids, tier=tier, before_ms=before_ms)
        return await self._store.write(work, background=True)

    async def trim(self) -> int:
        """Removes rows that are too old, and those of clusters that no longer exist; returns how many."""
        before = self._clock.now_ms() - TIERS[LAST].kept_ms
        return await self._store.write(lambda tx: tx.samples.trim(LAST, before), background=True)


def _due(tx: Tx, *, tier: int, before_ms: int) -> list[str]:
    return tx.samples.clusters(tier, before_ms)


def _move(tx: Tx, *, cluster_ids: Sequence[str], tier: int, before_ms: int) -> int:
    """In order: whoever else moves some of them takes their locks in the same one."""
    return sum(move(tx, cluster_id=each, tier=tier, before_ms=before_ms) for each in cluster_ids)


def move(tx: Tx, *, cluster_id: str, tier: int, before_ms: int) -> int:
    """Moves a cluster's rows of a tier that end before that time into the windows of the next one. Returns how many."""
    tx.lock(f"samples/{cluster_id}")  # two servers may both hold the lease for a moment
    rows = tx.samples.ended(cluster_id, tier, before_ms)
    target = TIERS[tier + 1]
    for start_ms, nodes in windows([unpack(row.packed) for row in rows], target).items():
        there = tx.samples.window(cluster_id, tier + 1, start_ms)
        found = nodes if there is None else together(unpack(there.packed), nodes, target)
        end_ms = max(each.times[-1] for each in found.values())
        row = SampleRow(cluster_id, tier + 1, start_ms, end_ms, pack(found), there.id if there is not None else 0)
        if there is None:
            tx.samples.insert([row])
        else:
            tx.samples.update(row)
    tx.samples.remove([row.id for row in rows])
    return len(rows)
