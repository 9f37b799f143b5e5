"""Due rows are claimed: each by one server at a time, and again when nothing came of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster
from tests.store.test_pools import pool
from tests.store.test_runs import run
from tests.support.patience import PATIENCE_S


def put(store: Store, due: dict[str, int | None]) -> None:
    def work(tx: Tx) -> None:
        for name, at in due.items():
            tx.clusters.insert(cluster(cluster_id=name))
            tx.clusters.schedule(name, at)

    store.write_sync(work)


def claim(store: Store, now: int, *, limit: int = 100, until: int = 5_000) -> list[str]:
    return store.write_sync(lambda tx: tx.clusters.claim(now, limit, until))


def test_what_is_due_is_claimed_once_until_its_time_comes_again(store: Store) -> None:
    put(store, {"a": 10, "b": 20, "later": 3_000, "never": None})
    assert sorted(claim(store, 100)) == ["a", "b"]
    assert claim(store, 100) == []
    assert sorted(claim(store, 5_000, until=9_000)) == ["a", "b", "later"], "the first claim's server came to nothing"


def test_the_longest_waiting_are_claimed_first(store: Store) -> None:
    put(store, {f"c{number}": number for number in range(20)})
    assert sorted(claim(store, 100, limit=3)) == ["c0", "c1", "c2"]
    assert sorted(claim(store, 100, limit=2)) == ["c3", "c4"]


def test_a_wake_and_a_pass_have_the_last_word(store: Store) -> None:
    put(store, {"a": 0, "b": 0})
    claim(store, 0)
    store.write_sync(lambda tx: tx.clusters.wake("a"))
    store.write_sync(lambda tx: tx.clusters.schedule("b", None))
    assert claim(store, 4_999) == ["a"]
    assert claim(store, 5_000, until=9_000) == ["a"]


def test_what_was_woken_is_found_and_can_be_left_out(store: Store) -> None:
    put(store, {"woken": 0, "timed": 10, "later": 3_000})
    assert store.read_sync(lambda tx: tx.clusters.woken(10)) == ["woken"]
    assert store.write_sync(lambda tx: tx.clusters.claim(100, 10, 5_000, {"woken", "gone"})) == ["timed"]
    assert claim(store, 100) == ["woken"]


def test_pools_and_runs_are_claimed_alike(store: Store) -> None:
    store.write_sync(lambda tx: tx.pools.insert(pool("one")))
    store.write_sync(lambda tx: tx.runs.insert(run(7)))
    assert store.write_sync(lambda tx: tx.pools.claim(0, 10, 5_000)) == [pool("one").instance_pool_id]
    assert store.write_sync(lambda tx: tx.runs.claim(0, 10, 5_000)) == [7]
    assert store.write_sync(lambda tx: (tx.pools.claim(4_999, 10, 9_000), tx.runs.claim(4_999, 10, 9_000))) == ([], [])


def test_a_timer_claims_its_run_unless_it_was_put_off(store: Store) -> None:
    store.write_sync(lambda tx: tx.runs.insert(run(7)))
    store.write_sync(lambda tx: tx.runs.schedule(7, 1_000))
    assert not store.write_sync(lambda tx: tx.runs.claim_one(7, 999, 4_000))
    assert store.write_sync(lambda tx: tx.runs.claim_one(7, 1_000, 4_000))
    assert not store.write_sync(lambda tx: tx.runs.claim_one(7, 1_000, 4_000))
    assert store.read_sync(lambda tx: tx.runs.due(4_000, 10)) == [7]


@pytest.fixture
def two(store_url: str) -> Iterator[tuple[Store, Store]]:
    one, other = Store.open(store_url), Store.open(store_url)
    yield one, other
    one.close()
    other.close()


def test_many_at_once_claim_every_row_once(two: tuple[Store, Store]) -> None:
    names = [f"c{number:03}" for number in range(200)]
    put(two[0], dict.fromkeys(names, 0))
    claimed: list[str] = []

    def take(number: int) -> None:
        while found := claim(two[number % 2], 0, limit=7):
            claimed.extend(found)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(take, range(8)))
    assert len(claimed) == len(set(claimed)), "nothing is claimed twice"
    # A row that another one had locked at that moment was passed over: the next poll has it.
    assert sorted([*claimed, *claim(two[0], 0, limit=200)]) == names


def test_a_row_that_somebody_is_at_is_passed_over(two: tuple[Store, Store]) -> None:
    one, other = two
    if one.alone:
        pytest.skip("SQLite's writers take turns")
    put(one, {"a": 0, "b": 0})
    locked, done = threading.Event(), threading.Event()

    def at_it(tx: Tx) -> None:
        tx.clusters.get("a")
        locked.set()
        assert done.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as threads:
        pass_over_it = threads.submit(lambda: one.write_sync(at_it))
        assert locked.wait(PATIENCE_S)
        assert claim(other, 0) == ["b"], "and nobody waits"
        done.set()
        pass_over_it.result()
    assert claim(other, 0) == ["a"]
