"""Units of work share transactions and stay apart."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable

import pytest

from brickyard.store import writer
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster
from tests.support.patience import PATIENCE_S


def ids(count: int) -> list[str]:
    return [f"1121-000000-{n:08d}" for n in range(count)]


def insert(cluster_id: str, *, fail: bool) -> Callable[[Tx], None]:
    def work(tx: Tx) -> None:
        tx.clusters.insert(cluster(cluster_id=cluster_id))
        if fail:
            raise RuntimeError(cluster_id)

    return work


def test_a_unit_that_raises_takes_nothing_with_it_but_itself(store: Store) -> None:
    async def scenario() -> list[BaseException | None]:
        writes = [store.write(insert(cluster_id, fail=number % 3 == 0)) for number, cluster_id in enumerate(ids(90))]
        return await asyncio.gather(*writes, return_exceptions=True)

    outcomes = asyncio.run(scenario())
    found = store.read_sync(lambda tx: tx.clusters.many(ids(90)))
    for number, (cluster_id, outcome) in enumerate(zip(ids(90), outcomes, strict=True)):
        assert (str(outcome), cluster_id in found) == ((cluster_id, False) if number % 3 == 0 else ("None", True))


def test_what_a_unit_wrote_the_next_one_of_its_transaction_sees(store: Store) -> None:
    store.write_sync(lambda tx: tx.set_meta("count", "0"))

    def add(tx: Tx) -> int:
        tx.lock("count")  # where units run side by side they take turns
        count = int(tx.get_meta("count") or 0) + 1
        tx.set_meta("count", str(count))
        return count

    async def scenario() -> list[int]:
        return list(await asyncio.gather(*(store.write(add) for _ in range(50))))

    assert sorted(asyncio.run(scenario())) == list(range(1, 51))


async def test_requests_go_before_the_background(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind one long write wait twenty of the background's and then twenty requests."""
    monkeypatch.setattr(writer, "_SHARE_S", 60.0)
    if not store.alone:
        pytest.skip("writers run side by side")
    order: list[str] = []
    release = threading.Event()

    first = asyncio.ensure_future(store.write(lambda tx: release.wait(PATIENCE_S)))
    behind = [store.write(lambda tx: order.append("background"), background=True) for _ in range(20)]
    asked = [store.write(lambda tx: order.append("request")) for _ in range(20)]
    waiting = asyncio.gather(*behind, *asked)
    await asyncio.sleep(0)  # all of them are queued now
    release.set()
    await first
    await waiting
    assert order == ["request"] * 20 + ["background"] * 20


async def test_the_background_does_not_fill_the_moment_between_an_answer_and_the_next_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks as soon as it has its answer keeps the background waiting, until that has its share or is late."""
    for name in ("_QUIET_S", "_SHARE_S", "_LATE_S"):
        monkeypatch.setattr(writer, name, 60.0)
    order: list[str] = []

    await store.write(lambda tx: order.append("request"))
    behind = asyncio.ensure_future(store.write(lambda tx: order.append("background"), background=True))
    for _ in range(20):
        await store.write(lambda tx: order.append("request"))
    assert order == ["request"] * 21
    monkeypatch.setattr(writer, "_QUIET_S", 0.0)
    await store.write(lambda tx: None)  # the writer looks again
    await behind


async def test_requests_without_a_pause_do_not_stop_the_background(store: Store) -> None:
    """There is always somebody waiting; what the background asks for is done all the same."""
    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            await store.write(lambda tx: tx.get_meta("a"))

    storm = [asyncio.create_task(ask()) for _ in range(64)]
    behind = [store.write(functools.partial(Tx.set_meta, key=i, value=i), background=True) for i in ids(20)]
    await asyncio.wait_for(asyncio.gather(*behind), PATIENCE_S)
    over.set()
    await asyncio.gather(*storm)


async def test_a_background_that_is_late_has_half_of_the_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its units are as long as those of requests that never end: as many of both are done, once it is late."""
    if not store.alone:
        pytest.skip("writers run side by side")
    monkeypatch.setattr(writer, "_LATE_S", 0.0)
    done = {"request": 0, "background": 0}

    def work(kind: str) -> None:
        done[kind] += 1
        time.sleep(0.001)

    async def ask(kind: str) -> None:
        while done["request"] + done["background"] < 1000:
            await store.write(lambda tx: work(kind), background=kind == "background")

    await asyncio.gather(*(ask(kind) for kind in done for _ in range(64)))
    assert done["background"] > 250


async def test_the_lag_is_the_longest_wait(store: Store) -> None:
    release = threading.Event()

    assert store.lag_s == 0.0
    writes = [asyncio.ensure_future(store.write(lambda tx: release.wait(PATIENCE_S))) for _ in range(40)]
    while store.lag_s < 0.1:
        await asyncio.sleep(0.01)
    release.set()
    await asyncio.gather(*writes)
    assert store.lag_s == 0.0


async def test_closing_finishes_what_is_queued(store_url: str) -> None:
    store = Store.open(store_url)

    writes = [
        asyncio.ensure_future(store.write(functools.partial(Tx.set_meta, key=i, value=i), background=True)) for i in ids(20)
    ]
    await asyncio.sleep(0)
    await asyncio.get_running_loop().run_in_executor(None, store.close)
    await asyncio.gather(*writes)
    with pytest.raises(RuntimeError, match="closed"):
        await store.write(lambda tx: None)
    again = Store.open(store_url)
    assert [again.read_sync(functools.partial(Tx.get_meta, key=i)) for i in ids(20)] == ids(20)
    again.close()
