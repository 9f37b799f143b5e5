"""A page costs what it shows, however many rows there are: SQLite says how it finds the rows of every kind of page."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from brickyard.domain.access import Visible
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterPosition, ClusterSort, EventFilter, EventPosition
from brickyard.domain.states import ClusterSource, State
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, cluster
from tests.support.databases import empty_sqlite

CUTOFF = NOW - 1_000
FILTERS = {
    "all": ClusterFilter(ended_after_ms=CUTOFF),
    "one state": ClusterFilter(states=(State.RUNNING,), ended_after_ms=CUTOFF),
    "states": ClusterFilter(states=(State.RUNNING, State.PENDING), ended_after_ms=CUTOFF),
    "sources": ClusterFilter(sources=(ClusterSource.UI, ClusterSource.API), ended_after_ms=CUTOFF),
    "a policy": ClusterFilter(policy_id="p", ended_after_ms=CUTOFF),
    "not pinned": ClusterFilter(is_pinned=False, ended_after_ms=CUTOFF),
}


@pytest.fixture
def explained(tmp_path: Path) -> Iterator[Callable[[Callable[[Tx], Any]], list[str]]]:
    """Runs a read; returns the steps by which SQLite would answer its queries."""
    store = Store.open(empty_sqlite(tmp_path / "test.db"))
    asked: list[str] = []

    @event.listens_for(store._engine, "checkout")
    def note(connection: Any, *_rest: Any) -> None:
        connection.set_trace_callback(asked.append)  # with the parameters

    def explain(work: Callable[[Tx], Any]) -> list[str]:
        asked.clear()
        store.read_sync(work)
        with store._engine.connect() as connection:
            raw = connection.connection.cursor()
            selects = [statement for statement in asked if statement.startswith("SELECT")]
            return [row[3] for statement in selects for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}")]

    yield explain
    store.close()


@pytest.mark.parametrize("after", [None, "behind"])
@pytest.mark.parametrize("sort", [ClusterSort(by=by, descending=down) for by in ClusterOrder for down in (True, False)])
@pytest.mark.parametrize("name", FILTERS)
def test_a_page_of_a_list_is_read_in_order(
    explained: Callable[[Callable[[Tx], Any]], list[str]], name: str, sort: ClusterSort, after: str | None
) -> None:
    value: int | str = "name" if sort.by is ClusterOrder.NAME else NOW
    position = ClusterPosition(value=value, cluster_id="c") if after else None
    steps = explained(lambda tx: tx.listing.page(FILTERS[name], sort=sort, limit=20, after=position))
    assert steps
    for step in steps:
        assert "USING INDEX clusters_" in step or "USING COVERING INDEX clusters_" in step, step
        assert "TEMP B-TREE" not in step
        if after:  # the rows before the page are skipped, not read
            assert f"({'cluster_name' if sort.by is ClusterOrder.NAME else 'created_ms'},cluster_id)" in step, step


def test_pinned_clusters_are_found_without_looking_at_the_others(explained: Callable[[Callable[[Tx], Any]], list[str]]) -> None:
    steps = explained(lambda tx: tx.listing.page(ClusterFilter(is_pinned=True), sort=ClusterSort(), limit=20))
    assert any("clusters_pinned (pinned_ms>?)" in step for step in steps), steps
    assert not any(step.startswith("SCAN") for step in steps), steps


def test_rows_outside_of_an_index_are_not_read_for_those_in_it(explained: Callable[[Callable[[Tx], Any]], list[str]]) -> None:
    reads: dict[str, Callable[[Tx], Any]] = {
        "clusters_idempotency": lambda tx: tx.clusters.by_idempotency_token("t", "me@example.com"),
        "clusters_task": lambda tx: tx.clusters.with_tasks(9),
        "clusters_pinned": lambda tx: tx.clusters.count_pinned(),
        "clusters_policy": lambda tx: tx.policies.active("p"),
        "instances_pool": lambda tx: (
            tx.instances.live_of_pool("p"),
            tx.instances.to_take("p", 9),
            tx.instances.standings(),
            tx.instances.standings("p", "q"),
            tx.instances.count_of_pool("p"),
        ),
    }
    for index, read in reads.items():
        steps = [step for step in explained(read) if step.startswith(("SEARCH", "SCAN"))]
        assert steps
        assert all(f"INDEX {index}" in step for step in steps), (index, steps)


def test_what_is_hidden_of_pools_and_policies_is_not_read(explained: Callable[[Callable[[Tx], Any]], list[str]]) -> None:
    some = Visible(owner="me@example.com", holders=frozenset({"1", "2"}))
    for read in (lambda tx: tx.pools.shown(some), lambda tx: tx.policies.shown(some)):
        steps = explained(read)
        assert any("_creator (creator=?)" in step for step in steps), steps
        assert not any(step.startswith("SCAN") for step in steps), steps


@pytest.mark.parametrize("types", [(), (EventType.PINNED,), (EventType.PINNED, EventType.RUNNING)])
@pytest.mark.parametrize("descending", [True, False])
def test_a_page_of_events_is_read_in_order(
    explained: Callable[[Callable[[Tx], Any]], list[str]], types: tuple[EventType, ...], *, descending: bool
) -> None:
    which = EventFilter(cluster_id="c", types=types, start_ms=NOW - 5, end_ms=NOW)
    after = EventPosition(timestamp=NOW, seq=1)
    steps = explained(lambda tx: tx.events.page(which, descending=descending, limit=50, after=after))
    assert len(steps) == max(1, len(types))
    for step in steps:
        assert step.startswith("SEARCH events USING INDEX events_by_"), step
        assert "timestamp" in step


def test_ten_thousand_events_of_one_minute_are_all_there_and_in_order(store: Store) -> None:
    def fill(tx: Tx) -> None:
        tx.clusters.insert(cluster(cluster_id="c"))
        for number in range(10_000):
            kind = EventType.UNPINNED if number % 2 else EventType.PINNED
            tx.events.append(ClusterEvent(cluster_id="c", timestamp=NOW + number * 6, type=kind))

    store.write_sync(fill)
    for which in (EventFilter(cluster_id="c"), EventFilter(cluster_id="c", types=(EventType.PINNED, EventType.UNPINNED))):
        seen: list[int] = []
        after = None
        while rows := store.read_sync(functools.partial(_page, which, after)):
            seen += [event.timestamp for _, event in rows]
            after = rows[-1][0]
        assert seen == [NOW + number * 6 for number in reversed(range(10_000))]
        assert store.read_sync(functools.partial(_count, which)) == 10_000
    part = EventFilter(cluster_id="c", start_ms=NOW + 60, end_ms=NOW + 600)
    assert store.read_sync(lambda tx: tx.events.count(part)) == len(range(60, 601, 6))


def _page(which: EventFilter, after: EventPosition | None, tx: Tx) -> list[tuple[EventPosition, ClusterEvent]]:
    return tx.events.page(which, limit=500, after=after)


def _count(which: EventFilter, tx: Tx) -> int:
    return tx.events.count(which)


def test_a_clock_that_was_set_back_does_not_turn_events_round(store: Store) -> None:
    def fill(tx: Tx) -> None:
        for timestamp, kind in ((NOW, EventType.STARTING), (NOW - 3_600_000, EventType.RUNNING), (NOW + 1, EventType.EDITED)):
            tx.events.append(ClusterEvent(cluster_id="c", timestamp=timestamp, type=kind))

    store.write_sync(fill)
    rows = store.read_sync(lambda tx: tx.events.page(EventFilter(cluster_id="c"), descending=False, limit=9))
    assert [(event.timestamp, event.type) for _, event in rows] == [
        (NOW, EventType.STARTING),
        (NOW, EventType.RUNNING),
        (NOW + 1, EventType.EDITED),
    ]


def test_samples_that_move_are_read_without_those_of_others(explained: Callable[[Callable[[Tx], Any]], list[str]]) -> None:
    steps = explained(lambda tx: (tx.samples.ended("c", 0, NOW), tx.samples.window("c", 1, NOW)))
    assert len(steps) >= 2
    assert all("samples_cluster (cluster_id=? AND tier=?" in step for step in steps if "SEARCH" in step or "SCAN" in step)
