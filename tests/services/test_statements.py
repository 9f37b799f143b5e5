"""How many statements the frequent calls and passes execute: each costs processor time, and on PostgreSQL an exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from brickyard.domain.clock import Ids
from brickyard.domain.queries import EventFilter
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES
from tests.services.desk import Desk
from tests.support.databases import empty_sqlite


class Traced:
    """A store, and the statements on its tables as (verb, table)."""

    def __init__(self, store: Store, said: list[str]) -> None:
        self.store = store
        self._said = said

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
    pass_over_cluster(
        tx, cluster_id, now=now, sizes=SIZES, policy=Policy(), ids=Ids(), silent=frozenset(), loads=Loads(alone=lambda: True)
    )


def test_a_create_only_inserts(traced: Traced) -> None:
    async def scenario() -> None:
        desk = Desk(traced.store)
        await desk.create()  # connections are opened, statements compiled
        traced.since()
        await desk.create()
        assert traced.since() == [("INSERT", "clusters"), ("INSERT", "events")]

    asyncio.run(scenario())


def test_reads_of_what_has_not_changed_cost_little(traced: Traced) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_a_pass_writes_each_row_once(traced: Traced) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_events_of_one_transaction_are_numbered_after_one_look(traced: Traced) -> None:
    async def scenario() -> None:
        desk = Desk(traced.store)
        name = await desk.create()

        def append_three(tx: Tx) -> None:
            (first,) = (found for _, found in tx.events.page(EventFilter(cluster_id=name, types=()), limit=9))
            for _ in range(3):
                tx.events.append(first)

        await traced.store.write(append_three)
        assert traced.since()[-4:] == [("SELECT", "events"), *[("INSERT", "events")] * 3]
        assert await traced.store.read(lambda tx: tx.events.count(EventFilter(cluster_id=name, types=()))) == 4

    asyncio.run(scenario())
