"""The first look at a cluster that starts on a pool waits for it; no other look does, and none waits for long."""

from __future__ import annotations

import asyncio

import msgspec

from brickyard.clusters.firstlook import FirstLook
from brickyard.domain.cluster import Target
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.desk import Desk
from tests.support.patience import PATIENCE_S, Stopwatch

WINDOW_S = 30.0  # so long that a test which waits for its end fails by its time


async def pooled(desk: Desk, look: FirstLook) -> str:
    """A cluster that starts on a pool and was asked to do so just now."""
    name = await desk.create()
    spec = msgspec.structs.replace((await desk.row(name)).spec, instance_pool_id="pool-1")
    await desk.settle(name, spec=spec)
    look.begin(name)
    return name


async def seconds(look: FirstLook, name: str) -> float:
    watch = Stopwatch()
    await look.settle(name)
    return watch.took_s


async def test_the_first_look_returns_when_the_cluster_is_up(desk: Desk, store: Store) -> None:
    look = FirstLook(store=store, window_s=WINDOW_S)
    name = await pooled(desk, look)
    assert look.due(name)
    waiting = asyncio.create_task(look.settle(name))
    await desk.settle(name, state_message="nearly there")
    assert not waiting.done(), "a change alone is not the end of the start"
    await desk.bring_up(name)
    await asyncio.wait_for(waiting, PATIENCE_S)
    assert not look.due(name)


async def test_the_first_look_returns_when_the_start_has_failed(desk: Desk, store: Store) -> None:
    look = FirstLook(store=store, window_s=WINDOW_S)
    name = await pooled(desk, look)
    waiting = asyncio.create_task(look.settle(name))
    await asyncio.sleep(0)
    await desk.settle(name, target=Target.TERMINATED)
    await asyncio.wait_for(waiting, PATIENCE_S)


async def test_the_second_look_does_not_wait(desk: Desk, store: Store) -> None:
    look = FirstLook(store=store, window_s=WINDOW_S)
    name = await pooled(desk, look)
    first = asyncio.create_task(look.settle(name))
    await asyncio.sleep(0)
    assert not look.due(name)
    assert await seconds(look, name) < 5
    assert not first.done()
    first.cancel()


async def test_the_first_look_ends_with_its_window(desk: Desk, store: Store) -> None:
    name = await pooled(desk, look := FirstLook(store=store, window_s=0.2, monotonic=lambda: 0))
    waiting = asyncio.create_task(seconds(look, name))
    await asyncio.sleep(0)
    assert not waiting.done(), "a window that has begun is waited for"
    waiting.cancel()
    name = await pooled(desk, look := FirstLook(store=store, window_s=1))
    assert await seconds(look, name) < PATIENCE_S
    clock = ManualClock()
    name = await pooled(desk, look := FirstLook(store=store, window_s=WINDOW_S, monotonic=lambda: clock.now_ms() / 1000))
    clock.advance(ms=int(WINDOW_S * 1000))
    assert await seconds(look, name) < WINDOW_S / 2, "the window begins with the call and not with the look"


async def test_a_cluster_without_a_pool_is_answered_at_once(desk: Desk, store: Store) -> None:
    look = FirstLook(store=store, window_s=WINDOW_S)
    name = await desk.create()
    look.begin(name)
    assert await seconds(look, name) < 5
    watch = Stopwatch()
    assert (await desk.get(name))["state"] == "PENDING"
    assert watch.took_s < 5


def test_what_nobody_looks_at_is_forgotten(store: Store) -> None:
    now = 0.0
    look = FirstLook(store=store, window_s=1.0, monotonic=lambda: now)
    look.begin("one")
    now = 0.5
    look.begin("other")
    now = 1.2
    look.begin("third")
    assert [look.due(name) for name in ("one", "other", "third")] == [False, True, True]
