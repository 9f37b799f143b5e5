"""How often agents report while nothing changes: seldom, unless somebody looks, or the cluster depends on it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from brickyard.domain.clock import SystemClock
from brickyard.domain.node import REPORT_S, NodeStatus, Phase, Poll, Role, StatusReport
from brickyard.domain.packedsamples import packed, samples_of
from brickyard.domain.samples import NodeAbout, NodeSamples, Sample
from brickyard.nodes.attention import LOOKED_S, SELDOM_S, Attention, seldom_s
from brickyard.nodes.samples import HELD_S, Samples
from brickyard.nodes.sessions import AgentService
from brickyard.store.store import Store
from brickyard.testing.builders import cluster, instance
from brickyard.testing.clock import ManualClock
from tests.support.members import SetMembers
from tests.support.patience import PATIENCE_S
from tests.support.world import agent_service

CLUSTER = cluster()
ID = CLUSTER.cluster_id
DRIVER = instance(CLUSTER, role=Role.DRIVER)


class Time:
    """Monotonic time."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_agents_report_often_while_somebody_looks_or_the_cluster_depends_on_it() -> None:
    time, members = Time(), SetMembers()
    attention = Attention(sharing=members, seldom_s=SELDOM_S, monotonic=time)
    assert attention.pause_s(ID) == SELDOM_S
    assert attention.look(ID)
    assert not attention.look(ID), "they report often already"
    assert (attention.pause_s(ID), attention.pause_s("another")) == (REPORT_S, SELDOM_S)
    time.now += LOOKED_S + 1
    assert attention.pause_s(ID) == SELDOM_S
    assert attention.need(ID, True)
    assert not attention.need(ID, True)
    assert attention.pause_s(ID) == REPORT_S
    assert not attention.need(ID, False)
    assert attention.pause_s(ID) == SELDOM_S
    members.alone = False
    assert attention.pause_s("another") == REPORT_S, "servers share the database"


def test_no_single_lost_report_makes_an_agent_or_a_server_seem_gone() -> None:
    assert seldom_s(silence_s=60, orphan_grace_s=600) == SELDOM_S
    assert seldom_s(silence_s=50, orphan_grace_s=600) == 30
    assert seldom_s(silence_s=20, orphan_grace_s=600) == 10
    assert seldom_s(silence_s=60, orphan_grace_s=40) == 10
    assert seldom_s(silence_s=1, orphan_grace_s=1) == REPORT_S


def service(store: Store, attention: Attention, samples: Samples) -> AgentService:
    return agent_service(store, silence_s=60, samples=samples, attention=attention)


@pytest.fixture
def store(store: Store) -> Store:
    """With a cluster and its driver."""
    store.write_sync(lambda tx: tx.clusters.insert(CLUSTER))
    store.write_sync(lambda tx: tx.instances.insert(DRIVER))
    return store


def report(samples: NodeSamples | None = None) -> StatusReport:
    status = NodeStatus(phase=Phase.READY)
    return StatusReport(instance_id=DRIVER.instance_id, boot_id="b", endpoint="e", pid=1, status=status, samples=samples)


async def test_who_looks_at_a_cluster_sees_what_its_nodes_use_now(store: Store) -> None:
    """The agent's poll is answered, and the look waits for the report that follows."""
    attention, clock = Attention(seldom_s=SELDOM_S), SystemClock()
    samples = Samples(store=store, clock=clock, attention=attention)
    agents = service(store, attention, samples)
    assert (await agents.report(report())).report_s == SELDOM_S
    assert DRIVER.assignment is not None
    poll = asyncio.create_task(agents.assignment(DRIVER.instance_id, DRIVER.assignment.version, 50))
    await asyncio.sleep(0)
    look = asyncio.create_task(agents.look(ID))
    reply = await asyncio.wait_for(poll, PATIENCE_S)
    assert reply.report_s == REPORT_S
    assert not look.done()
    now = NodeSamples(cluster_id=ID, about=NodeAbout(), samples=(Sample(clock.now_ms(), {"cpu_cores": 2.0}),))
    assert (await agents.report(report(now))).report_s == REPORT_S
    await asyncio.wait_for(look, PATIENCE_S)
    assert samples.fresh(ID)[DRIVER.instance_id].sample.values == {"cpu_cores": 2.0}
    await asyncio.wait_for(agents.look(ID), PATIENCE_S)  # waits for nothing: its agents report often


async def test_a_server_that_is_new_asks_for_earlier_samples_and_takes_all_at_once(store: Store) -> None:
    clock = SystemClock()
    samples = Samples(store=store, clock=clock)
    agents = service(store, Attention(), samples)
    now = clock.now_ms()
    three = tuple(Sample(now - ago, {"cpu_cores": 2.0}) for ago in (10_000, 5_000, 0))
    sent = NodeSamples(cluster_id=ID, samples=three[2:], earlier=2)
    for _ in range(2):  # the answer to the first one is lost
        assert (await agents.report(report(sent))).samples_again
        assert not samples.fresh(ID)
    assert not (await agents.report(report(NodeSamples(cluster_id=ID, samples=three)))).samples_again
    assert [sample for each in samples._waiting for sample in samples_of(each.given)] == list(three)


async def test_a_poll_is_the_heartbeat_and_brings_samples(store: Store) -> None:
    attention, clock = Attention(seldom_s=SELDOM_S), SystemClock()
    samples = Samples(store=store, clock=clock, attention=attention)
    agents = service(store, attention, samples)
    assert DRIVER.assignment is not None
    now = clock.now_ms()
    three = tuple(Sample(now - ago, {"cpu_cores": 2.0}) for ago in (10_000, 5_000, 0))
    poll = Poll(instance_id=DRIVER.instance_id, have=DRIVER.assignment.version, wait=50)
    brings = msgspec.structs.replace(poll, samples=packed(NodeSamples(cluster_id=ID, samples=three[2:], earlier=2)))

    new = await asyncio.wait_for(agents.poll(brings), PATIENCE_S)
    assert (new.known, new.same, new.unheard, new.samples_again) == (True, True, True, False)
    assert not samples.fresh(ID), "whose they are is not known yet"
    await agents.report(report())
    again = await asyncio.wait_for(agents.poll(brings), PATIENCE_S)
    assert (again.unheard, again.samples_again) == (False, True)
    assert not samples.fresh(ID)

    held = asyncio.ensure_future(
        agents.poll(msgspec.structs.replace(poll, samples=packed(NodeSamples(cluster_id=ID, samples=three))))
    )
    await asyncio.sleep(0)
    assert samples.fresh(ID), "they are taken before the answer"
    assert not held.done()
    agents.need(ID, True)
    reply = await asyncio.wait_for(held, PATIENCE_S)
    assert (reply.known, reply.same, reply.unheard, reply.samples_again) == (True, True, False, False)
    assert reply.report_s == REPORT_S


async def test_an_agent_that_polls_is_not_silent(store: Store) -> None:
    time = Time()
    agents = agent_service(store, silence_s=60, monotonic=time)
    registered = [DRIVER.instance_id]
    await agents.report(report())
    for _ in range(30):
        assert DRIVER.assignment is not None
        if time.now < 1_100:
            await agents.poll(Poll(instance_id=DRIVER.instance_id, have=DRIVER.assignment.version))
            await agents._hearing.write()
            heard = time.now
        silent = await agents.judge(registered)
        assert bool(silent) == (time.now - heard > 60)
        time.now += 9
    assert silent


async def test_an_agent_that_does_not_poll_just_now_hears_so_at_its_next_poll(store: Store) -> None:
    attention = Attention(seldom_s=SELDOM_S)
    agents = service(store, attention, Samples(store=store, clock=SystemClock()))
    await agents.report(report())
    agents.need(ID, True)
    assert DRIVER.assignment is not None
    reply = await asyncio.wait_for(agents.assignment(DRIVER.instance_id, DRIVER.assignment.version, 50), PATIENCE_S)
    assert reply.report_s == REPORT_S


async def test_samples_wait_for_others_of_their_cluster_unless_somebody_looks(store: Store) -> None:
    clock = ManualClock()

    def rows() -> int:
        return len(store.read_sync(lambda tx: tx.samples.between(ID, 0, clock.now_ms() + 60_000)))

    attention = Attention(seldom_s=SELDOM_S)
    samples = Samples(store=store, clock=clock, attention=attention)

    def take() -> None:
        clock.advance(seconds=5)
        sample = Sample(clock.now_ms(), {"cpu_cores": 1.0})
        samples.take(DRIVER.instance_id, ID, packed(NodeSamples(cluster_id=ID, about=NodeAbout(), samples=(sample,))))

    await samples.run_once()
    for _ in range(int(HELD_S / 5)):
        assert rows() == 0 or not store.alone
        take()
        await samples.run_once()
    if store.alone:
        assert rows() == 1, "one row of all of them"
        take()
        await samples.run_once()
        assert rows() == 1
    attention.look(ID)
    take()
    await samples.run_once()
    assert rows() == 2 or not store.alone
    assert not samples._waiting
