"""What a request waits for has an end: a queue that is too long, and a database that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brickyard.domain.errors import DatabaseAway, RequestLimitExceeded
from brickyard.store import store as module
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.support.patience import PATIENCE_S


@contextmanager
def held_up(store: Store, how: Callable[[Callable[[Tx], object]], Awaitable[object]], count: int) -> Iterator[list[Any]]:
    """So many calls of the store are under way, and go on until the block is left."""
    release, begun = threading.Event(), threading.Semaphore(0)

    def work(_tx: Tx) -> str:
        begun.release()
        assert release.wait(PATIENCE_S)
        return "done"

    calls = [asyncio.ensure_future(how(work)) for _ in range(count)]
    try:
        yield [begun, *calls]
    finally:
        release.set()


async def all_begun(held: list[Any]) -> None:
    for _ in held[1:]:
        assert await asyncio.to_thread(held[0].acquire, timeout=PATIENCE_S)


@pytest.mark.parametrize(("hung_s", "told"), [(600.0, RequestLimitExceeded), (0.0, DatabaseAway)])
async def test_a_request_that_is_not_begun_in_time_is_given_up_and_never_done(
    store: Store, monkeypatch: pytest.MonkeyPatch, hung_s: float, told: type[Exception]
) -> None:
    """Overload is what has piled up; a database that is at one thing for long does not answer."""
    monkeypatch.setattr(module, "WAIT_S", 0.2)
    monkeypatch.setattr(module, "HUNG_S", hung_s)

    with held_up(store, store.write, 1 if store.alone else 8) as writes, held_up(store, store.read, 4) as reads:
        await all_begun(writes)
        await all_begun(reads)
        behind = asyncio.ensure_future(store.write(lambda tx: tx.set_meta("background", "done"), background=True))
        with pytest.raises(told):
            await store.write(lambda tx: tx.set_meta("request", "done"))
        with pytest.raises(told):
            await store.read(lambda tx: tx.get_meta("request"))
        assert not any(each.done() for each in (behind, *writes[1:], *reads[1:])), "what is begun goes on, loops wait"
    assert await asyncio.gather(*writes[1:], *reads[1:]) == ["done"] * (len(writes) + len(reads) - 2)
    await behind
    assert await store.read(lambda tx: (tx.get_meta("request"), tx.get_meta("background"))) == (None, "done")


async def test_a_caller_who_is_cancelled_is_not_told_that_it_was_too_long(store: Store) -> None:
    with held_up(store, store.read, 4) as reads:
        await all_begun(reads)
        waiting = asyncio.ensure_future(store.read(lambda tx: None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await asyncio.gather(*reads[1:])


async def test_a_write_is_done_though_its_caller_is_cancelled(store: Store) -> None:
    with held_up(store, store.write, 1 if store.alone else 8) as writes:
        await all_begun(writes)
        waiting = asyncio.ensure_future(store.write(lambda tx: tx.set_meta("a", "b")))
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.gather(*writes[1:])
    while await store.read(lambda tx: tx.get_meta("a")) != "b":
        await asyncio.sleep(0.01)


async def test_closing_leaves_what_hangs_alone(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.3)
    monkeypatch.setattr(module, "HUNG_S", 0.1)
    store = Store.open(store_url)

    with held_up(store, store.write, 1 if store.alone else 8) as writes:
        await all_begun(writes)
        behind = [asyncio.ensure_future(store.write(lambda tx: None, background=True)) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(store.close)
        assert {type(each) for each in await asyncio.gather(*behind, return_exceptions=True)} == {DatabaseAway}
        assert not any(each.done() for each in writes[1:])
    await asyncio.gather(*writes[1:], return_exceptions=True)
