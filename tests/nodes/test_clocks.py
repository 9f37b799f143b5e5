"""Clocks of nodes and servers differ and are set: how long ago something was is known all the same."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Instance, Target
from brickyard.domain.node import Load, NodeStatus, Role, StatusReport, WorkerLoad
from brickyard.domain.packedsamples import packed, samples_of
from brickyard.domain.samples import NodeSamples, Sample
from brickyard.nodes.clocks import SAME_MS, NodeClocks, moved, moved_samples
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.reconcile.clusters import GRACE_MS, pass_over_cluster
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES, cluster, instance, up
from brickyard.testing.clock import ManualClock
from tests.support.world import agent_service

MINUTE, HOUR = 60_000, 3_600_000
NEW = cluster(single=True)
CLUSTER = up(msgspec.structs.replace(NEW, spec=msgspec.structs.replace(NEW.spec, autotermination_minutes=10)))
DRIVER = instance(CLUSTER, role=Role.SINGLE)
ID = DRIVER.instance_id


class World:
    """A node whose clock is an hour behind, and its server. Another one after it plays a restart."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock, self.began_ms, self.loads = store, clock, clock.now_ms(), Loads()
        self.agents = agent_service(store, clock=clock, loads=self.loads)

    def report(self, *, node_ms: int, idle_ms: int) -> None:
        """A driver that has been idle for so long reports."""
        status = msgspec.structs.replace(DRIVER.status, last_activity_ms=node_ms - idle_ms, busy=False)
        report = StatusReport(
            instance_id=ID, boot_id=DRIVER.boot_id, endpoint=DRIVER.endpoint, pid=DRIVER.pid, status=status, now_ms=node_ms
        )
        asyncio.run(self.agents.report(report))

    def look(self) -> Target:
        """A pass over the cluster."""
        return self.store.write_sync(self._look)

    def _look(self, tx: Tx) -> Target:
        pass_over_cluster(
            tx, CLUSTER.cluster_id, now=self.clock.now_ms(), sizes=SIZES, policy=Policy(), ids=Ids(), silent=frozenset(),
            loads=self.loads, began_ms=self.began_ms,
        )  # fmt: skip
        after = tx.clusters.get(CLUSTER.cluster_id)
        assert after is not None
        return after.target

    @property
    def row(self) -> Instance:
        found = self.store.read_sync(lambda tx: tx.instances.get(ID))
        assert found is not None
        return found


@pytest.fixture
def clock(store: Store) -> ManualClock:
    def put(tx: Tx) -> None:
        tx.clusters.insert(CLUSTER)
        tx.instances.insert(DRIVER)

    store.write_sync(put)
    return ManualClock()


def test_an_idle_cluster_outlives_a_server_that_starts_with_another_time(store: Store, clock: ManualClock) -> None:
    before, node_ms = World(store, clock), clock.now_ms() - HOUR
    before.report(node_ms=node_ms, idle_ms=30_000)
    assert before.row.status.last_activity_ms == clock.now_ms() - 30_000
    clock.advance(ms=HOUR)  # the clock on the wall is set while no server is there
    after = World(store, clock)
    assert after.look() is Target.RUNNING, "its nodes have not reported yet"
    after.report(node_ms=node_ms + 5_000, idle_ms=35_000)
    clock.advance(ms=GRACE_MS)
    assert after.look() is Target.RUNNING
    clock.advance(minutes=9)
    assert after.look() is Target.TERMINATED, "it was idle for more than ten minutes of everybody's time"


def test_what_differs_as_calls_do_is_not_written(store: Store, clock: ManualClock) -> None:
    before, node_ms = World(store, clock), clock.now_ms() - HOUR
    before.report(node_ms=node_ms, idle_ms=30_000)
    known = before.row
    World(store, clock).report(node_ms=node_ms - 20, idle_ms=30_000)
    assert before.row == known


@given(st.lists(st.tuples(st.integers(0, HOUR), st.integers(-HOUR, HOUR), st.integers(0, 500)), min_size=1))
def test_ages_are_the_same_on_both_clocks_whatever_the_servers_shows(steps: list[tuple[int, int, int]]) -> None:
    """`steps`: how long ago something was, by how much the server's clock is ahead, how long the call took."""
    clock, node_ms = ManualClock(), 1_700_000_000_000
    clocks = NodeClocks(clock)
    for age_ms, ahead_ms, took_ms in steps:
        clock.advance(ms=node_ms + ahead_ms + took_ms - clock.now_ms())
        at = node_ms - age_ms
        load = Load(backlog_since_ms=at, workers=(WorkerLoad("w", 1, 0, at, 0), WorkerLoad("v", 1, 1, 0, 0)))
        status = NodeStatus(last_activity_ms=at, load=load)
        ahead = clocks.ahead("i", node_ms)
        here = moved(status, ahead)
        assert here.load is not None and here.silent_since_ms == 0 and here.load.workers[1].idle_since_ms == 0
        for each in (here.last_activity_ms, here.load.backlog_since_ms, here.load.workers[0].idle_since_ms):
            assert abs(clock.now_ms() - each - age_ms) <= SAME_MS + took_ms
        samples = packed(NodeSamples(cluster_id="c", samples=(Sample(at, {"cpu_cores": 1.0}),)))
        assert samples_of(moved_samples(samples, ahead))[0].at_ms == here.last_activity_ms


def test_an_agent_that_does_not_say_what_time_it_has_has_the_servers() -> None:
    clocks = NodeClocks(ManualClock())
    assert clocks.ahead("i", 0) == 0
    status = NodeStatus(last_activity_ms=7)
    assert moved(status, 0) is status
