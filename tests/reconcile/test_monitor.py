"""What the instance monitor makes of instances that come and go while it asks the provider for its list."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterable

import msgspec
import structlog.testing

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, StatusReport
from brickyard.nodes.reports import record_report
from brickyard.providers.base import Observed
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.launches import record_launch
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, SMALL, cluster, nodes
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.quietagents import QuietAgents

CLUSTER = cluster(num_workers=0)
REQUESTED = msgspec.structs.replace(
    nodes(CLUSTER, 0)[0], state=InstanceState.REQUESTED, launched_ms=0, registered_ms=0, status=NodeStatus()
)
ID = REQUESTED.instance_id


class Asked(SimulatedProvider):
    """Lists what is in `listed`. `meanwhile` happens while it answers: after it has looked, before the server has its answer."""

    def __init__(self) -> None:
        super().__init__(node_types=[SMALL])
        self.listed = {ID: Observed(instance_id=ID, alive=True)}
        self.meanwhile: Callable[[], object] = lambda: None

    def observe(self) -> dict[str, Observed]:
        answer = dict(self.listed)
        self.meanwhile()
        return answer


def monitor(store: Store, asked: Asked) -> InstanceMonitor:
    return InstanceMonitor(store=store, providers=Providers(asked), agents=QuietAgents(), wake=lambda _: None)


def recorded(store: Store) -> Instance:
    found = store.read_sync(lambda tx: tx.instances.get(ID))
    assert found is not None
    return found


def begin(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.clusters.insert(CLUSTER)
        tx.instances.insert(REQUESTED)

    store.write_sync(work)


def call_home(store: Store) -> None:
    report = StatusReport(instance_id=ID, boot_id="b", endpoint="http://x", pid=1, status=NodeStatus())
    store.write_sync(lambda tx: record_report(tx, report, now=NOW))


def launch(store: Store) -> None:
    store.write_sync(lambda tx: record_launch(tx, ID, None, now=NOW))


def each_of(steps: Iterable[Callable[[Store], None]], store: Store) -> None:
    for step in steps:
        step(store)


def remove(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.instances.delete(recorded(store))
        tx.clusters.delete(CLUSTER.cluster_id)

    store.write_sync(work)


def test_an_instance_that_comes_while_the_provider_is_asked_is_not_missing(store: Store) -> None:
    """In any order of the launch call's return and the agent's first call; also by a clock that is behind."""
    for steps in ((launch,), (call_home,), (call_home, launch), (launch, call_home)):
        asked = Asked()
        asked.listed = {}
        begin(store)
        asked.meanwhile = functools.partial(each_of, steps, store)
        asyncio.run(monitor(store, asked).run_once())
        assert recorded(store).state in (InstanceState.LAUNCHED, InstanceState.REGISTERED), steps
        remove(store)


def test_an_instance_that_is_no_longer_listed_is_gone_at_the_first_look(store: Store, golden: Golden) -> None:
    asked = Asked()
    asked.listed = {}
    begin(store)
    call_home(store)
    asyncio.run(monitor(store, asked).run_once())
    assert recorded(store).state is InstanceState.GONE
    golden(recorded(store).lost)


async def test_an_instance_that_comes_and_vanishes_is_gone_at_the_next_look(store: Store) -> None:
    asked = Asked()
    looks = monitor(store, asked)
    begin(store)
    await looks.run_once()
    asked.listed = {}
    asked.meanwhile = lambda: call_home(store)
    await looks.run_once()
    asked.meanwhile = lambda: None
    assert recorded(store).state is InstanceState.REGISTERED
    await looks.run_once()
    assert recorded(store).state is InstanceState.GONE


def test_an_instance_whose_row_cannot_be_read_keeps_no_other_from_being_noticed(store: Store) -> None:
    asked = Asked()
    asked.listed = {}
    begin(store)
    call_home(store)
    bad = msgspec.structs.replace(REQUESTED, instance_id="i-bad", state=InstanceState.REGISTERED)

    def spoil(tx: Tx) -> None:
        tx.instances.insert(bad)
        tx._connection.exec_driver_sql("UPDATE instances SET doc = '{\"instance_id\": 5}' WHERE instance_id = 'i-bad'")

    store.write_sync(spoil)
    looks = monitor(store, asked)
    with structlog.testing.capture_logs() as logs:
        asyncio.run(looks.run_once())
        asyncio.run(looks.run_once())
    assert recorded(store).state is InstanceState.GONE
    assert [each["key"] for each in logs if each["event"] == "instance_check_failed"] == ["i-bad"]


async def test_a_monitor_that_was_ended_in_the_middle_of_a_look_runs_again(store: Store) -> None:
    """Its next run asks providers, and records what is gone, as the first one did."""
    asked = Asked()
    looks = monitor(store, asked)
    begin(store)
    call_home(store)
    answers, answered = threading.Event(), threading.Event()

    def wait() -> None:
        answered.set()
        answers.wait(PATIENCE_S)

    async def until_true(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.01)

    asked.meanwhile = wait
    first = asyncio.create_task(looks.run())
    await until_true(answered.is_set)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    answers.set()
    asked.listed = {}
    again = asyncio.create_task(looks.run())
    try:
        await until_true(lambda: recorded(store).state is InstanceState.GONE or again.done())
        assert recorded(store).state is InstanceState.GONE
    finally:
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
