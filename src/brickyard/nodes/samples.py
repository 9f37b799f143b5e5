"""The samples that agents send: the newest of each node, and those that are to be written.

A server writes what it has received every half minute; those of clusters that somebody looks at every
five seconds (`attention.py`), and all of them every 2.5 where several servers share the database. An agent repeats a report that
was not answered, to another server if need be, and repeats to the next server what a killed one may not have written. So a
sample may arrive twice; its time tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

import structlog

from brickyard.domain.clock import Clock
from brickyard.domain.errors import DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.node import REPORT_S
from brickyard.domain.samples import METRICS, SAMPLE_S, NodeAbout, NodeSamples, Point, Sample, columns, pack
from brickyard.nodes.attention import Attention
from brickyard.store.samples import SampleRow
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

WRITE_S = SAMPLE_S  # between two looks at what is to be written
HELD_S = 30.0  # for how long samples wait for others of their cluster: a row costs the same, however many it has
MOST_HELD = 30_000  # samples; with more, none wait
SHARED_WRITE_S = 2.5  # where other servers read what is written: with the time between two samples it must stay below FRESH_MS
FRESH_MS = 10_000  # an older sample says nothing about now; nodes send one every five seconds
LATE_MS, EARLY_MS = 3_600_000, 60_000  # how far an agent's clock, or a report, may be behind or ahead
MAX_WAITING = 50_000  # samples that wait for the database; more are dropped, the oldest first
MAX_AT_ONCE = 200  # in one report


class Fresh(NamedTuple):
    """The newest sample of a node."""

    about: NodeAbout
    sample: Sample


class _Waiting(NamedTuple):
    cluster_id: str
    instance_id: str
    about: NodeAbout
    sample: Sample


class Samples:
    """One per server; used on the event loop."""

    def __init__(self, *, store: Store, clock: Clock, attention: Attention | None = None) -> None:
        self._store = store
        self._clock = clock
        self._attention = attention or Attention()
        self._written_ms = 0  # when all that waited was written
        self._newest: dict[str, tuple[str, Fresh]] = {}  # by instance id, with the cluster
        self._waiting: deque[_Waiting] = deque(maxlen=MAX_WAITING)

    def wants_again(self, instance_id: str, cluster_id: str, given: NodeSamples) -> bool:
        """Whether the agent must send these again, with the earlier ones that it has: this server has taken none of the node, so
        another one took the earlier ones, and may have been killed before it wrote them."""
        before = self._newest.get(instance_id)
        return given.earlier > 0 and given.cluster_id == cluster_id and (before is None or before[0] != cluster_id)

    def take(self, instance_id: str, cluster_id: str, given: NodeSamples) -> None:
        """Records what an agent reports of its node of that cluster. Drops what belongs to another cluster, is already known, or
        has an impossible time."""
        if given.cluster_id != cluster_id or not cluster_id:
            return
        now = self._clock.now_ms()
        before = self._newest.get(instance_id)
        last_ms = before[1].sample.at_ms if before is not None and before[0] == cluster_id else 0
        for each in given.samples[-MAX_AT_ONCE:]:
            if each.at_ms > last_ms and now - LATE_MS <= each.at_ms <= now + EARLY_MS:
                last_ms, sample = each.at_ms, _sound(each)
                self._newest[instance_id] = (cluster_id, Fresh(given.about, sample))
                self._waiting.append(_Waiting(cluster_id, instance_id, given.about, sample))

    def fresh(self, cluster_id: str) -> dict[str, Fresh]:
        """The newest samples of a cluster's nodes that this server has heard of, by instance id."""
        return {name: found for name, (owner, found) in self._newest.items() if owner == cluster_id}

    def forget(self, instance_id: str) -> None:
        """Drops the instance, which is gone."""
        self._newest.pop(instance_id, None)

    @property
    def pause_s(self) -> float:
        """Between two writes."""
        return WRITE_S if self._store.alone else SHARED_WRITE_S

    async def write_due(self) -> None:
        """Writes what should not wait any longer. Raises as `write` does."""
        now = self._clock.now_ms()
        if not self._store.alone or now - self._written_ms >= HELD_S * 1000 or len(self._waiting) > MOST_HELD:
            self._written_ms = now
            await self.write()
            return
        clusters = {each.cluster_id for each in self._waiting}
        if often := {each for each in clusters if self._attention.pause_s(each) <= REPORT_S}:
            await self.write(often)

    async def write(self, clusters: Collection[str] | None = None) -> None:
        """Writes what has been received, of all clusters or these. Raises DatabaseTrouble or RequestLimitExceeded, and will then
        write it the next time."""
        batch = [each for each in self._waiting if clusters is None or each.cluster_id in clusters]
        if not batch:
            return
        left = [each for each in self._waiting if clusters is not None and each.cluster_id not in clusters]
        self._waiting.clear()  # before anything is awaited: more arrives meanwhile
        self._waiting.extend(left)
        try:
            rows = await asyncio.to_thread(_rows, batch)
            await self._store.write(lambda tx: tx.samples.insert(rows), background=True)
        except BaseException:
            arrived = list(self._waiting)
            self._waiting.clear()
            self._waiting.extend([*batch, *arrived])
            raise

    async def run(self) -> None:
        """Writes every few seconds until cancelled, and then once more."""
        try:
            while True:
                await asyncio.sleep(self.pause_s)
                try:
                    await self.write_due()
                except (DatabaseTrouble, RequestLimitExceeded):
                    await self._store.usable()
        finally:
            with contextlib.suppress(DatabaseTrouble, RequestLimitExceeded):
                await self.write()


def _sound(given: Sample) -> Sample:
    """The metrics that are known, with finite values: nearly always the sample as it is."""
    if given.values.keys() <= METRICS.keys() and all(map(math.isfinite, given.values.values())):
        return given
    return Sample(given.at_ms, {key: each for key, each in given.values.items() if key in METRICS and math.isfinite(each)})


def _rows(batch: list[_Waiting]) -> list[SampleRow]:
    """One row for each cluster."""
    found: dict[str, dict[str, tuple[NodeAbout, dict[int, Point]]]] = {}
    for each in batch:
        _, points = found.setdefault(each.cluster_id, {}).setdefault(each.instance_id, (each.about, {}))
        points.setdefault(each.sample.at_ms, Point(1, each.sample.values))
    rows = []
    for cluster_id, nodes in found.items():
        times = [at for _, points in nodes.values() for at in points]
        packed = pack({name: columns(about, points) for name, (about, points) in nodes.items()})
        rows.append(SampleRow(cluster_id, 0, min(times), max(times), packed))
    return rows
