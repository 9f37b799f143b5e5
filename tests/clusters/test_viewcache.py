"""Cached views are never older than the last acknowledged change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

from brickyard.access import Authorizer
from brickyard.clusters.viewcache import View, ViewCache
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.requests import ClusterId, ResizeCluster
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES
from tests.support.desk import ADMIN, Desk
from tests.support.patience import PATIENCE_S
from tests.support.postgres import Postgres

T = TypeVar("T")


class Sizes:
    """What is on offer."""

    def node_types(self) -> Mapping[str, NodeType]:
        return SIZES


class Sharing:
    """Another server comes and goes."""

    alone = False


class SlowStore(Store):
    """A store whose reads can be held after their snapshot was taken, before the caller hears of it."""

    def __init__(self, of: Store) -> None:
        self.__dict__ = of.__dict__
        self.hold = threading.Event()
        self.taken = threading.Event()
        self.hold.set()
        self.reads = 0

    async def read(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        self.reads += 1

        def held(tx: Tx) -> T:
            result = work(tx)
            self.taken.set()
            assert self.hold.wait(PATIENCE_S)
            return result

        return await super().read(held, background=background)


@pytest.fixture
def slow(store: Store) -> SlowStore:
    return SlowStore(store)


@pytest.fixture
def views(slow: SlowStore) -> ViewCache:
    return ViewCache(store=slow, sizes=Sizes(), authorizer=Authorizer())


def text(view: View | None) -> bytes:
    assert view is not None
    return view.json


async def overtaken(slow: SlowStore, reader: asyncio.Task[T], change: Callable[[], object]) -> T:
    """Let a commit fall between a read's snapshot and the read's return."""
    await asyncio.to_thread(slow.taken.wait, 10)
    await change()  # type: ignore[misc] # every change is a coroutine
    slow.hold.set()
    return await reader


async def test_a_view_is_read_once_until_it_changes(desk: Desk, slow: SlowStore, views: ViewCache) -> None:
    name, other = await desk.create(), await desk.create()
    first = await views.full(name)
    assert await views.full(name) == first
    assert slow.reads == 1
    await desk.service.pin(ADMIN, ClusterId(cluster_id=other))
    await views.full(name)
    assert slow.reads == 1  # another cluster's change costs this one nothing
    await desk.service.delete(ADMIN, ClusterId(cluster_id=name))
    assert b"TERMINATING" in text(await views.full(name))
    assert slow.reads == 2


async def test_a_read_that_a_commit_overtakes_is_not_kept(desk: Desk, slow: SlowStore, views: ViewCache) -> None:
    name = await desk.create()
    slow.hold.clear()
    reader = asyncio.create_task(views.full(name))
    old = await overtaken(slow, reader, lambda: desk.service.delete(ADMIN, ClusterId(cluster_id=name)))
    assert b"PENDING" in text(old)
    assert b"TERMINATING" in text(await views.full(name))


async def test_another_clusters_commit_spoils_nothing(desk: Desk, slow: SlowStore, views: ViewCache) -> None:
    name, other = await desk.create(), await desk.create()
    slow.hold.clear()
    reader = asyncio.create_task(views.full(name))
    await overtaken(slow, reader, lambda: desk.service.delete(ADMIN, ClusterId(cluster_id=other)))
    await views.full(name)
    assert slow.reads == 1


async def test_a_list_keeps_clusters_that_change_while_it_is_made(desk: Desk, slow: SlowStore, views: ViewCache) -> None:
    cached, missing = await desk.create(), await desk.create()
    await views.items([cached])
    slow.taken.clear()
    slow.hold.clear()
    reader = asyncio.create_task(views.items([cached, missing]))
    items = await overtaken(slow, reader, lambda: desk.service.delete(ADMIN, ClusterId(cluster_id=cached)))
    assert len(items) == 2
    assert b"TERMINATING" in (await views.items([cached]))[0]


async def test_a_list_leaves_out_what_was_deleted_for_good(desk: Desk, slow: SlowStore, views: ViewCache) -> None:
    name = await desk.create()
    await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=name))
    assert await views.items([name, "none"]) == []
    assert await views.full(name) is None
    assert slow.reads == 2


async def test_no_acknowledged_change_is_ever_unseen(desk: Desk) -> None:
    name = await desk.create(num_workers=1)
    await desk.bring_up(name)
    stop = asyncio.Event()

    async def read() -> None:
        while not stop.is_set():
            await desk.service.get(ADMIN, name)
            await asyncio.sleep(0)  # a cached answer does not yield

    readers = [asyncio.create_task(read()) for _ in range(4)]
    for size in range(2, 40):
        await desk.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=size))
        assert (await desk.get(name))["num_workers"] == size
        await desk.settle(name, sized=True)
        assert (await desk.get(name))["state"] == "RUNNING"
    stop.set()
    await asyncio.gather(*readers)


async def test_what_another_server_has_committed_is_shown_at_once(postgres: Postgres) -> None:
    """While there is one; what is read then is not kept for later."""
    url = postgres.new_database()
    sharing = Sharing()
    here, there = Store.open(url, sharing=sharing), Store.open(url)
    desk = Desk(there)
    try:
        slow = SlowStore(here)
        views = ViewCache(store=slow, sizes=Sizes(), authorizer=Authorizer())
        name = await desk.create(num_workers=1)
        await desk.bring_up(name)
        for size in range(2, 12):
            await desk.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=size))
            assert b'"num_workers":%d,' % size in text(await views.full(name))
            assert b'"num_workers":%d,' % size in (await views.items([name]))[0]
            await desk.settle(name, sized=True)
        sharing.alone, reads = True, slow.reads
        await views.full(name)
        assert slow.reads == reads + 1, "what was kept before others came is used no more"
        while True:  # the feed may still tell of what was committed before
            reads = slow.reads
            await views.full(name)
            await views.full(name)
            if slow.reads == reads:
                break  # what is read alone is kept
        sharing.alone = False
        await views.full(name)
        assert slow.reads == reads + 1
    finally:
        here.close()
        there.close()


async def test_a_gap_in_the_feed_empties_the_cache(desk: Desk, slow: SlowStore, views: ViewCache) -> None:
    name = await desk.create()
    await views.full(name)
    await views.items([name])
    views.clear()
    await views.full(name)
    await views.items([name])
    assert slow.reads == 4
    views.clear()
    slow.hold.clear()
    reader = asyncio.create_task(views.full(name))

    async def gap() -> None:
        views.clear()

    await overtaken(slow, reader, gap)
    await views.full(name)
    assert slow.reads == 6, "what was read across a gap is not kept"


async def test_what_is_kept_has_an_end(desk: Desk, slow: SlowStore) -> None:
    names = [await desk.create() for _ in range(10)]
    one = len((await ViewCache(store=slow, sizes=Sizes(), authorizer=Authorizer()).items(names[:1]))[0])
    views = ViewCache(store=slow, sizes=Sizes(), authorizer=Authorizer(), most=4 * one + 50)
    whole = await views.items(names)
    assert len(whole) == 10
    slow.reads = 0
    assert await views.items(names[-4:]) == whole[-4:]
    assert slow.reads == 0
    assert await views.items(names[:2]) == whole[:2]
    assert slow.reads == 1
    small = ViewCache(store=slow, sizes=Sizes(), authorizer=Authorizer(), most=10)
    assert await small.full(names[0]) == await small.full(names[0]) is not None


async def test_looks_that_come_while_one_is_read_are_read_together_and_see_what_came_before_them(
    desk: Desk, slow: SlowStore, views: ViewCache
) -> None:
    names = [await desk.create() for _ in range(20)]
    slow.hold.clear()
    first = asyncio.create_task(views.full(names[0]))
    await asyncio.to_thread(slow.taken.wait, PATIENCE_S)
    await desk.service.delete(ADMIN, ClusterId(cluster_id=names[0]))
    behind = [asyncio.create_task(views.full(name)) for name in [*names, "none"]]
    await asyncio.sleep(0)
    slow.hold.set()
    found = await asyncio.gather(*behind)
    assert b"PENDING" in text(await first), "asked before the change"
    assert b"TERMINATING" in text(found[0]), "asked after it"
    assert all(f'"{name}"'.encode() in text(view) for name, view in zip(names, found, strict=False))
    assert found[-1] is None
    assert slow.reads == 2
