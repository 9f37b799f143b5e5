"""The samples that agents send: the newest of each node, and those that are to be written.

A server writes what it has received every half minute; those of clusters that somebody looks at every
five seconds (`attention.py`), and all of them every 2.5 where several servers share the database. An agent repeats a report that
was not answered, to another server if need be, and repeats to the next server what a killed one may not have written. So a
sample may arrive twice; its time tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

import msgspec
import structlog

from brickyard.domain.clock import Clock
from brickyard.domain.errors import DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.node import REPORT_S, Role
from brickyard.domain.packedsamples import PackedSamples, last_of, points_of, samples_of, sound, stored
from brickyard.domain.periodic import Periodic
from brickyard.domain.samples import SAMPLE_S, Columns, NodeAbout, PackedColumns, Sample, columns, pack
from brickyard.nodes.attention import Attention
from brickyard.store.samples import SampleRow
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

WRITE_S = SAMPLE_S  # between two looks at what is to be written
HELD_S = 30.0  # for how long samples wait for others of their cluster: a row costs the same, however many it has
MOST_HELD = 30_000  # samples; with more, none wait
SHARED_WRITE_S = 2.5  # where other servers read what is written: with the time between two samples it must stay below FRESH_MS
FRESH_MS = 10_000  # an older sample says nothing about now; nodes send one every five seconds
LATELY_MS = 90_000  # an agent that has nothing new to say may keep its samples for 40 s (`attention.py`)
_DRIVERS = (Role.DRIVER.value, Role.SINGLE.value)
LATE_MS, EARLY_MS = 3_600_000, 60_000  # how far an agent's clock, or a report, may be behind or ahead
MAX_WAITING = 50_000  # samples that wait for the database; more are dropped, the oldest first
MAX_AT_ONCE = 200  # in one report


class Fresh(NamedTuple):
    """The newest sample of a node."""

    about: NodeAbout
    sample: Sample


class _Waiting(NamedTuple):
    instance_id: str
    given: PackedSamples


class Samples(Periodic):
    """One per server; used on the event loop. Its loop writes what agents have sent."""

    def __init__(self, *, store: Store, clock: Clock, attention: Attention | None = None) -> None:
        super().__init__(every_s=WRITE_S, database=store)
        self._store = store
        self._clock = clock
        self._attention = attention or Attention()
        self._written_ms = 0  # when all that waited was written
        self._newest: dict[str, PackedSamples] = {}  # by instance id: one sample
        self._waiting: deque[_Waiting] = deque()
        self._held = 0  # how many samples wait

    def wants_again(self, instance_id: str, cluster_id: str, given: PackedSamples) -> bool:
        """Whether the agent must send these again, with the earlier ones that it has: this server has taken none of the node, so
        another one took the earlier ones, and may have been killed before it wrote them."""
        before = self._newest.get(instance_id)
        return given.earlier > 0 and given.cluster_id == cluster_id and (before is None or before.cluster_id != cluster_id)

    def take(self, instance_id: str, cluster_id: str, given: PackedSamples) -> None:
        """Records what an agent reports of its node of that cluster. Drops what belongs to another cluster, is already known, or
        has an impossible time."""
        if given.cluster_id != cluster_id or not cluster_id:
            return
        now = self._clock.now_ms()
        before = self._newest.get(instance_id)
        known_ms = before.last_ms if before is not None and before.cluster_id == cluster_id else 0
        good = sound(given, after_ms=max(known_ms, now - LATE_MS - 1), before_ms=now + EARLY_MS, most=MAX_AT_ONCE)
        if good is not None:
            # What many nodes have in common is in memory once.
            good = msgspec.structs.replace(
                good, cluster_id=cluster_id, about=_shared(good.about), names=sys.intern(good.names), earlier=0
            )
            self._newest[instance_id] = last_of(good, 1)
            self._wait(_Waiting(instance_id, good))

    def _wait(self, *waiting: _Waiting) -> None:
        """They are to be written. Drops the oldest if too much is."""
        self._waiting.extend(waiting)
        self._held += sum(each.given.count for each in waiting)
        while self._held > MAX_WAITING:
            self._held -= self._waiting.popleft().given.count

    def _take_out(self, clusters: Collection[str] | None) -> list[_Waiting]:
        """What waits, of all clusters or these."""
        out = [each for each in self._waiting if clusters is None or each.given.cluster_id in clusters]
        if out:
            left = [each for each in self._waiting if clusters is not None and each.given.cluster_id not in clusters]
            self._waiting.clear()
            self._waiting.extend(left)
            self._held -= sum(each.given.count for each in out)
        return out

    def fresh(self, cluster_id: str) -> dict[str, Fresh]:
        """The newest samples of a cluster's nodes that this server has heard of, by instance id."""
        of = {name: each for name, each in self._newest.items() if each.cluster_id == cluster_id}
        return {name: Fresh(each.about, samples_of(each)[-1]) for name, each in of.items()}

    def drivers(self) -> dict[str, str]:
        """The clusters whose driver this server has heard lately, and the driver's instance."""
        since = self._clock.now_ms() - LATELY_MS
        return {
            each.cluster_id: name for name, each in self._newest.items() if each.last_ms >= since and each.about.role in _DRIVERS
        }

    def newest(self, instance_id: str) -> Sample | None:
        """The newest sample of an instance that this server has heard."""
        found = self._newest.get(instance_id)
        return samples_of(found)[-1] if found is not None else None

    def forget(self, instance_id: str) -> None:
        """Drops the instance, which is gone."""
        self._newest.pop(instance_id, None)

    @property
    def pause_s(self) -> float:
        """Between two writes."""
        return WRITE_S if self._store.alone else SHARED_WRITE_S

    async def run_once(self) -> None:
        """Write what should not wait any longer. Raises as `write` does."""
        self.every_s = self.pause_s
        now = self._clock.now_ms()
        if not self._store.alone or now - self._written_ms >= HELD_S * 1000 or self._held > MOST_HELD:
            self._written_ms = now
            await self.write()
            return
        clusters = {each.given.cluster_id for each in self._waiting}
        if often := {each for each in clusters if self._attention.pause_s(each) <= REPORT_S}:
            await self.write(often)

    async def write(self, clusters: Collection[str] | None = None) -> None:
        """Writes what has been received, of all clusters or these. Raises DatabaseTrouble or RequestLimitExceeded, and will then
        write it the next time."""
        if not (batch := self._take_out(clusters)):  # before anything is awaited: more arrives meanwhile
            return
        try:
            rows = await asyncio.to_thread(_rows, batch)
            await self._store.write(lambda tx: tx.samples.insert(rows), background=True)
        except BaseException:
            arrived = self._take_out(None)
            self._wait(*batch, *arrived)
            raise

    async def end(self) -> None:
        with contextlib.suppress(DatabaseTrouble, RequestLimitExceeded):
            await self.write()


@lru_cache(maxsize=1024)
def _shared(about: NodeAbout) -> NodeAbout:
    return about


def _rows(batch: list[_Waiting]) -> list[SampleRow]:
    """One row for each cluster."""
    clusters: dict[str, dict[str, list[PackedSamples]]] = {}
    for each in batch:
        clusters.setdefault(each.given.cluster_id, {}).setdefault(each.instance_id, []).append(each.given)
    rows = []
    for cluster_id, nodes in clusters.items():
        given = [each for several in nodes.values() for each in several]
        packed = pack({name: _columns(several) for name, several in nodes.items()})
        rows.append(SampleRow(cluster_id, 0, min(each.first_ms for each in given), max(each.last_ms for each in given), packed))
    return rows


def _columns(given: list[PackedSamples]) -> Columns | PackedColumns:
    """Of one node: as it came, if it came at once."""
    return stored(given[0]) if len(given) == 1 else columns(given[-1].about, points_of(given))
