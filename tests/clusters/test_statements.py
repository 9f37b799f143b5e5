"""How many statements the frequent calls and passes execute: each costs processor time, and on PostgreSQL an exchange."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, event

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Target
from brickyard.domain.instances import InstanceState
from brickyard.domain.policies import PolicyRow
from brickyard.domain.queries import EventFilter
from brickyard.domain.requests import CloneCluster, EditCluster
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.plan.specifying import plain_spec
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES
from tests.support.databases import empty_sqlite
from tests.support.desk import ADMIN, ASK, Desk


class Traced:
    """A store, and the statements on its tables as (verb, table)."""

    def __init__(self, store: Store, said: list[str]) -> None:
        self.store = store
        self._said = said

    def columns(self) -> list[tuple[str, set[str]]]:
        """What the updates since the last call have set."""
        updates = [each for each in self._said if each.startswith("UPDATE")]
        self._said.clear()
        return [(each.split()[1], set(re.findall(r"(?:SET |, )(\w+)=", each.partition(" WHERE ")[0]))) for each in updates]

    def since(self) -> list[tuple[str, str]]:
        """The statements since the last call."""
        words = [each.split() for each in self._said]
        self._said.clear()
        verbs = {"SELECT": "FROM", "INSERT": "INTO", "UPDATE": "UPDATE", "DELETE": "FROM"}
        return [(each[0], each[each.index(verbs[each[0]]) + 1]) for each in words if each[0] in verbs]


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    said: list[str] = []

    def trace(raw: Any, _record: Any) -> None:
        raw.set_trace_callback(said.append)

    event.listen(Engine, "connect", trace)
    try:
        store = Store.open(empty_sqlite(tmp_path / "traced.db"))
    finally:
        event.remove(Engine, "connect", trace)
    try:
        yield Traced(store, said)
    finally:
        store.close()


def one_pass(tx: Tx, cluster_id: str, now: int) -> None:
    pass_over_cluster(tx, cluster_id, now=now, sizes=SIZES, policy=Policy(), ids=Ids(), silent=frozenset(), loads=Loads())


async def test_a_create_only_inserts(traced: Traced) -> None:
    desk = Desk(traced.store)
    await desk.create()  # connections are opened, statements compiled
    traced.since()
    await desk.create()
    assert traced.since() == [("INSERT", "clusters"), ("INSERT", "events")]


async def test_a_create_and_an_edit_read_everything_before_they_write(traced: Traced) -> None:
    """The decision is one: nothing is looked up after it."""
    desk = Desk(traced.store)
    clone = CloneCluster(source_cluster_id=await desk.create())
    await traced.store.write(
        lambda tx: tx.policies.put(PolicyRow(policy_id="p", name="p", definition="{}", max_clusters_per_user=9))
    )
    traced.since()
    name = await desk.create(policy_id="p", idempotency_token="t", clone_from=clone)
    created = [verb for verb, _ in traced.since()]
    await desk.bring_up(name)
    traced.since()
    await desk.service.edit(ADMIN, EditCluster(**msgspec.structs.asdict(plain_spec(ASK)), cluster_id=name))
    edited = [verb for verb, _ in traced.since()]
    for verbs in (created, edited):
        assert verbs == sorted(verbs, key=lambda verb: verb != "SELECT")
        assert {"SELECT", "INSERT"} <= set(verbs)


async def test_creates_that_wait_together_insert_together(traced: Traced) -> None:
    desk = Desk(traced.store)
    await desk.create()
    gate = threading.Event()
    held = asyncio.create_task(traced.store.write(lambda _: gate.wait()))
    await asyncio.sleep(0)  # the writer has begun with it, or will take it first
    creates = [asyncio.create_task(desk.create()) for _ in range(10)]
    await asyncio.sleep(0)
    traced.since()
    gate.set()
    assert len(set(await asyncio.gather(*creates))) == 10
    await held
    inserted = [("INSERT", "clusters")] * 2 + [("INSERT", "events")] * 2  # eight rows and two
    assert traced.since() == inserted


async def test_a_change_writes_the_columns_that_it_changes(traced: Traced) -> None:
    """Others would have SQLite write the indexes of them."""

    desk = Desk(traced.store)
    name = await desk.create(num_workers=1)
    await desk.bring_up(name)
    await desk.settle(name, state_message="something is said")
    traced.since()
    await desk.settle(name, state_message="something else is said")
    assert traced.columns() == [("clusters", {"version", "doc"})]
    await desk.settle(name, target=Target.TERMINATED)
    assert traced.columns() == [("clusters", {"state", "version", "doc"})]
    await traced.store.write(lambda tx: _terminate(tx, name))
    assert traced.columns() == [("instances", {"state", "doc"})] * 2


def _terminate(tx: Tx, name: str) -> None:
    for node in tx.instances.of_cluster(name):
        tx.instances.update(msgspec.structs.replace(node, state=InstanceState.TERMINATING))


async def test_reads_of_what_has_not_changed_cost_little(traced: Traced) -> None:
    desk = Desk(traced.store)
    names = [await desk.create() for _ in range(30)]
    for _ in range(2):  # the first ones fill the caches
        traced.since()
        for name in names:
            await desk.get(name)
        page = await desk.list()
        everything = await desk.list(paged=False)
    assert len(page["clusters"]) == 20 and len(everything["clusters"]) == 30
    assert traced.since() == [("SELECT", "clusters")] * 2, "the ids of the pages; the rest is cached"


async def test_a_pass_writes_each_row_once(traced: Traced) -> None:
    desk = Desk(traced.store)
    name = await desk.create(num_workers=2)
    traced.since()
    await traced.store.write(lambda tx: one_pass(tx, name, desk.clock.now_ms()))
    read = [("SELECT", "clusters"), ("SELECT", "global_init_scripts"), ("SELECT", "instances")]
    launched = [("INSERT", "instances")] * 3
    assert sorted(traced.since()) == sorted([*read, ("UPDATE", "clusters"), *launched])

    await desk.bring_up(name)
    await traced.store.write(lambda tx: one_pass(tx, name, desk.clock.now_ms()))
    traced.since()
    await traced.store.write(lambda tx: one_pass(tx, name, desk.clock.now_ms()))
    kept = [("SELECT", "clusters"), ("SELECT", "instances"), ("SELECT", "charges"), ("UPDATE", "clusters")]
    assert sorted(traced.since()) == sorted(kept), "nothing to do but to note when to look again"


async def test_events_of_one_transaction_are_numbered_after_one_look(traced: Traced) -> None:
    desk = Desk(traced.store)
    name = await desk.create()

    def append_three(tx: Tx) -> None:
        (first,) = (found for _, found in tx.events.page(EventFilter(cluster_id=name, types=()), limit=9))
        for _ in range(3):
            tx.events.append(first)

    await traced.store.write(append_three)
    assert traced.since()[-4:] == [("SELECT", "events"), *[("INSERT", "events")] * 3]
    assert await traced.store.read(lambda tx: tx.events.count(EventFilter(cluster_id=name, types=()))) == 4
