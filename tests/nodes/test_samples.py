"""Samples of nodes between agents and the database: none twice, none lost but what a killed server had not written."""

from __future__ import annotations

import asyncio
import math
from array import array

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.domain.errors import DatabaseAway
from brickyard.domain.packedsamples import PackedSamples, numbers, packed, samples_of
from brickyard.domain.samples import SAMPLE_S, NodeAbout, NodeSamples, Sample, unpack
from brickyard.features.metrics.loop import SHARES, SamplePacking, move
from brickyard.features.metrics.service import AskRange, ClusterMetrics, MetricsRange
from brickyard.nodes.samples import FRESH_MS, LATELY_MS, MAX_WAITING, WRITE_S, Samples
from brickyard.plan.samples import DAY, HOUR, MINUTE
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster
from brickyard.testing.clock import ManualClock
from tests.support import world as shared
from tests.support.databases import both_databases
from tests.support.desk import ADMIN

CLUSTER = cluster()
ID = CLUSTER.cluster_id


def one(sample: Sample) -> PackedSamples:
    return packed(NodeSamples(cluster_id=ID, samples=(sample,)))


class World(shared.World):
    """A database with one cluster, and servers that share it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, clock=ManualClock(1_790_000_000_000 - 1_790_000_000_000 % DAY + 12 * HOUR + 5 * MINUTE))
        self.packing = SamplePacking(store=store, clock=self.clock)
        store.write_sync(lambda tx: tx.clusters.insert(CLUSTER))

    def server(self) -> Samples:
        return Samples(store=self.store, clock=self.clock)

    def measured(self, *values: float, every_ms: int = 5_000) -> PackedSamples:
        """Samples up to now."""
        first = self.clock.now_ms() - every_ms * (len(values) - 1)
        samples = tuple(Sample(first + n * every_ms, {"cpu_cores": value}) for n, value in enumerate(values))
        return packed(NodeSamples(cluster_id=ID, about=NodeAbout(role="driver"), samples=samples))

    async def read(self, since_ms: int, step_ms: int = 5_000, server: Samples | None = None) -> dict[str, list[float | None]]:
        """The values of each node."""
        now = self.clock.now_ms()
        asked = AskRange(cluster_id=ID, start_time=now - since_ms, end_time=now + 1, step_ms=step_ms)
        answer = await self.metrics(server or self.server()).between(ADMIN, asked)
        found = msgspec.json.decode(answer, type=MetricsRange)
        return {node.instance_id: node.metrics["cpu_cores"] for node in found.nodes}

    def rows(self) -> dict[int, int]:
        """How many rows each tier has."""
        found: dict[int, int] = {}
        for row in self.store.read_sync(lambda tx: tx.samples.between(ID, 0, self.clock.now_ms() + DAY)):
            found[row.tier] = found.get(row.tier, 0) + 1
        return found


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


@both_databases
async def test_a_report_that_is_repeated_to_another_server_counts_once(world: World, store: Store) -> None:
    one, other = world.server(), world.server()
    sent = world.measured(1, 2, 3)
    one.take("i-1", ID, sent)
    one.take("i-1", ID, sent)
    other.take("i-1", ID, sent)
    await one.write()
    world.clock.advance(minutes=2)
    assert await world.packing.pack() == 1
    await other.write()  # it was slow: the same samples are packed already
    assert await world.read(2 * MINUTE + 10_000) == {"i-1": [1.0, 2.0, 3.0, *[None] * 24]}
    assert await world.packing.pack() == 1
    assert world.rows() == {1: 1}
    (row,) = store.read_sync(lambda tx: tx.samples.between(ID, 0, world.clock.now_ms()))
    assert list(unpack(row.packed)["i-1"].counts) == [1.0, 1.0, 1.0]


async def test_the_next_server_asks_for_what_a_killed_one_may_not_have_written(world: World) -> None:
    killed = world.server()
    killed.take("i-1", ID, written := world.measured(1, 2))
    await killed.write()
    world.clock.advance(seconds=5)
    killed.take("i-1", ID, lost := world.measured(3))  # confirmed, and never written
    world.clock.advance(seconds=5)
    sent = msgspec.structs.replace(world.measured(4), earlier=3)
    assert not killed.wants_again("i-1", ID, sent), "it knows the node"
    following = world.server()
    assert following.wants_again("i-1", ID, sent)
    assert not following.wants_again("i-1", "another", sent)
    assert not following.wants_again("i-1", ID, msgspec.structs.replace(sent, earlier=0)), "the agent has no others"
    again = tuple(sample for each in (written, lost, sent) for sample in samples_of(each))
    following.take("i-1", ID, packed(NodeSamples(cluster_id=ID, about=sent.about, samples=again)))
    await following.write()
    assert await world.read(15_000) == {"i-1": [1.0, 2.0, 3.0, 4.0]}
    assert not following.wants_again("i-1", ID, sent)


async def test_samples_that_arrive_while_others_are_written_are_kept(world: World) -> None:
    server = world.server()
    server.take("i-1", ID, world.measured(1))
    writing = asyncio.create_task(server.write())
    await asyncio.sleep(0)  # it has begun
    world.clock.advance(seconds=5)
    server.take("i-1", ID, world.measured(2))
    await writing
    await server.write()
    assert await world.read(5_000) == {"i-1": [1.0, 2.0]}


@both_databases
async def test_packing_that_is_cut_off_leaves_every_sample_where_it_was(world: World, store: Store) -> None:
    server = world.server()
    server.take("i-1", ID, world.measured(*range(12)))
    await server.write()
    world.clock.advance(minutes=2)

    def cut_off(tx: Tx) -> None:
        move(tx, cluster_id=ID, tier=0, before_ms=world.clock.now_ms())
        raise InterruptedError

    before = await world.read(5 * MINUTE)
    with pytest.raises(InterruptedError):
        await store.write(cut_off)
    assert world.rows() == {0: 1}
    assert await world.read(5 * MINUTE) == before
    await asyncio.gather(world.packing.pack(), SamplePacking(store=store, clock=world.clock).pack())  # two at once
    assert world.rows() == {1: 1}
    assert await world.read(5 * MINUTE) == before


@both_databases
async def test_every_cluster_has_its_turn(world: World, store: Store) -> None:
    """Rounds share the clusters; one round moves several of them together."""

    others = [cluster(cluster_id=f"0101-000000-other{number:03}") for number in range(30)]
    server = world.server()
    for each in others:
        await store.write(lambda tx, each=each: tx.clusters.insert(each))  # type: ignore[misc] # mypy infers no lambda with a default
        sent = msgspec.structs.replace(world.measured(1, 2), cluster_id=each.cluster_id)
        server.take(f"i-{each.cluster_id}", each.cluster_id, sent)
    await server.write()
    world.clock.advance(minutes=2)
    moved = [await world.packing.pack(share=share) for share in range(SHARES)]
    assert sum(moved) == 30
    assert all(moved)
    assert await world.packing.pack() == 0


async def test_samples_become_coarser_and_go_after_thirty_days(world: World, store: Store) -> None:
    """A sample every 20 minutes, of 1 in the first half of 40 days and 3 in the second, stays what it was in every tier."""

    server = world.server()
    for hour in range(40 * 24):
        server.take("i-1", ID, world.measured(*[3.0 if hour >= 20 * 24 else 1.0] * 3, every_ms=20 * MINUTE))
        if hour % 24 == 23:
            await server.write()
            await world.packing.pack()
            await world.packing.trim()
        world.clock.advance(minutes=60)
    world.clock.advance(minutes=2)
    await world.packing.pack()
    found = (await world.read(40 * DAY, step_ms=DAY))["i-1"]
    assert found[:5] == [None] * 5, "older than 30 days, and the windows of four days have gone"
    assert set(found[10:19]) == {1.0}
    assert set(found[21:40]) == {3.0}
    rows = world.rows()
    assert rows.get(0, 0) == 0
    assert rows.get(1, 0) <= 6
    assert rows[2] <= 6
    assert rows[3] <= 6
    assert rows[4] <= 9
    await store.write(lambda tx: tx.clusters.delete(CLUSTER.cluster_id))
    await world.packing.trim()
    assert world.rows() == {}


async def test_what_cannot_be_written_waits_and_takes_bounded_memory(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world.server()

    async def away(*_: object, **__: object) -> None:
        raise DatabaseAway("the test says so")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", away)
        for _ in range(3):
            world.clock.advance(seconds=5)
            server.take("i-1", ID, world.measured(1))
            with pytest.raises(DatabaseAway):
                await server.write()
    await server.write()
    assert await world.read(10_000) == {"i-1": [1.0, 1.0, 1.0]}
    for node in range(MAX_WAITING // 100):
        server.take(f"i-{node}", ID, world.measured(*[1.0] * 150))
    assert MAX_WAITING - 150 < sum(each.given.count for each in server._waiting) <= MAX_WAITING


async def test_impossible_samples_are_dropped(world: World) -> None:
    server, now = world.server(), world.clock.now_ms()
    server.take("i-1", "another-cluster", world.measured(1))
    server.take("i-1", "", world.measured(1))
    for at in (now - 2 * HOUR, now + 2 * MINUTE):
        server.take("i-1", ID, one(Sample(at, {"cpu_cores": 1.0})))
    assert server.fresh(ID) == {}
    values = {"cpu_cores": 1.0, "heap_bytes": float("nan"), "unknown": 1.0}
    server.take("i-1", ID, one(Sample(now, values)))
    assert server.fresh(ID)["i-1"].sample == Sample(now, {"cpu_cores": 1.0})
    for changes in ({"times": b"1234567"}, {"numbers": b"12345"}, {"names": "cpu_cores"}, {"times": b""}):
        server.take("i-2", ID, msgspec.structs.replace(one(Sample(now, values)), **changes))
    assert list(server.fresh(ID)) == ["i-1"]
    strange = PackedSamples(
        cluster_id=ID,
        times=array("q", [now, now - 10_000, now, now + 2 * MINUTE, now - 5_000]).tobytes(),
        names="cpu_cores,unknown,heap_bytes",
        numbers=numbers([1, 2, 3, 4, 5, *[6] * 5, math.inf, -math.inf, math.nan, 7, 8]),
    )
    server.take("i-2", ID, strange)
    await server.write()
    assert await world.read(15_000) == {"i-1": [None, None, None, 1.0], "i-2": [None, 2.0, 5.0, 1.0]}
    assert server.fresh(ID)["i-2"].sample.values == {"cpu_cores": 1.0}
    server.forget("i-1")
    assert list(server.fresh(ID)) == ["i-2"]


async def test_a_snapshot_has_the_newest_of_all_servers_and_nothing_old(world: World, store: Store) -> None:
    one, other = world.server(), world.server()
    other.take("i-2", ID, world.measured(2))
    other.take("i-3", ID, world.measured(9))
    await other.write()
    world.clock.advance(seconds=5)
    other.take("i-3", ID, world.measured(3))
    await other.write()
    one.take("i-1", ID, world.measured(1))
    service = ClusterMetrics(store=store, clock=world.clock, authorizer=Authorizer(), samples=one)

    async def seen() -> dict[str, float]:
        return {node.instance_id: node.metrics["cpu_cores"] for node in (await service.snapshot(ADMIN, ID)).nodes}

    assert await seen() == {"i-1": 1.0, "i-2": 2.0, "i-3": 3.0}
    world.clock.advance(seconds=5)
    assert await seen() == {"i-1": 1.0, "i-2": 2.0, "i-3": 3.0}, "ten seconds old"
    world.clock.advance(ms=1)
    assert await seen() == {"i-1": 1.0, "i-3": 3.0}, "and older"
    world.clock.advance(seconds=5)
    assert await seen() == {}


def test_what_one_server_hears_is_in_the_snapshots_of_another_while_it_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample is written in time even if the next one of its node just misses a write."""
    server = Samples(store=store, clock=ManualClock())
    monkeypatch.setattr(Store, "alone", property(lambda _: False))
    assert SAMPLE_S + server.pause_s < FRESH_MS / 1000 - 2, "with two seconds for reports and writes"
    monkeypatch.setattr(Store, "alone", property(lambda _: True))
    assert server.pause_s == WRITE_S


async def test_drivers_count_as_long_as_they_are_heard(world: World) -> None:
    server = world.server()
    worker = packed(NodeSamples(cluster_id=ID, about=NodeAbout(role="worker"), samples=(Sample(world.clock.now_ms(), {}),)))
    server.take("w", ID, worker)
    server.take("d", ID, world.measured(1, 2))
    assert server.drivers() == {ID: "d"}
    newest = server.newest("d")
    assert newest is not None and newest.values == {"cpu_cores": 2}
    world.clock.advance(ms=LATELY_MS + 1)
    assert server.drivers() == {}
    server.forget("d")
    assert server.newest("d") is None
