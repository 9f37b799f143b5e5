"""Servers that die at every step of what they do.

A crash is played by a store, and by whatever else a loop talks to, that let exactly N of its calls through and then never answer
again, before or after the call took effect, as a SIGKILL would leave things. What the server had started lives on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from brickyard.domain.errors import DatabaseFull
from brickyard.store.store import Store
from tests.support.databases import empty_sqlite
from tests.support.patience import PATIENCE_S

AT_ONCE = 12  # servers that die side by side: most of their time is waiting
OVER = 8  # so many in a row that were not killed in time: the scenario has no more steps
MOST_STEPS = 200
FULL_FOR = 3  # writes in a row that find a full disk

# (a folder, a store, steps until the crash) -> whether the crash came before the work was over. The next server is to end it.
CrashAt = Callable[[Path, Store, int], Awaitable[bool]]


class Crash(BaseException):
    """The process is gone: not an Exception, so that nothing handles it."""


class Fuse:
    """Counts steps and blows at the N-th."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.blown = asyncio.Event()

    def step(self) -> None:
        """One step more. Raises Crash."""
        self.left -= 1
        if self.left <= 0:
            self.blown.set()
        if self.left < 0:
            raise Crash


class FusedStore:
    """A store each of whose writes burns the fuse: before it takes effect, or after."""

    def __init__(self, store: Store, fuse: Fuse, *, before: bool) -> None:
        self.read, self.usable, self.alone, self.tracing = store.read, store.usable, store.alone, store.tracing
        self.on_commit, self.on_gap = store.on_commit, store.on_gap
        self._write, self._fuse, self._before = store.write, fuse, before
        self._under_way: set[asyncio.Future[Any]] = set()

    async def write(self, work: Callable[[Any], Any], *, background: bool = False) -> Any:
        if self._before:
            self._fuse.step()
        writing = asyncio.ensure_future(self._write(work, background=background))
        self._under_way.add(writing)
        writing.add_done_callback(self._under_way.discard)
        result = await asyncio.shield(writing)
        if not self._before:
            self._fuse.step()
        return result

    async def let_through(self) -> None:
        """A killed process commits nothing later: wait for what was under way when it died."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


class FullStore:
    """A store whose disk is full from one write on, for some of them."""

    def __init__(self, store: Store, first: int) -> None:
        self.read, self.usable, self.alone = store.read, store.usable, store.alone
        self.on_commit, self.on_gap = store.on_commit, store.on_gap
        self._write, self.left = store.write, first + FULL_FOR

    @property
    def passed(self) -> bool:
        return self.left <= 0

    async def write(self, work: Callable[[Any], Any], *, background: bool = False) -> Any:
        self.left -= 1
        if 0 <= self.left < FULL_FOR:
            raise DatabaseFull("no space left on device")
        return await self._write(work, background=background)


async def first_of(*works: Awaitable[Any]) -> None:
    """Until one of them is over; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await end(tasks)


async def end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel them, and wait until they are gone, by whatever."""
    tasks = list(tasks)
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def killed_at_every_step(folder: Path, crash_at: CrashAt, *, steps_at_least: int = 2, at_once: int = AT_ONCE) -> None:
    """Crash after one step, after two, ... until the work is over before the crash comes. Each attempt has a store of its own."""

    async def attempt(steps: int) -> bool:
        own = folder / str(steps)
        own.mkdir()
        store = Store.open(empty_sqlite(own / "test.db"))
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await crash_at(own, store, steps)
        finally:
            store.close()

    async def batch(steps: range) -> list[bool]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks that end by a Crash
        return await asyncio.gather(*map(attempt, steps))

    crashed = asyncio.run(batch(range(1, 1 + at_once)))
    assert all(crashed[: steps_at_least - 1]), "the scenario has steps to crash at"
    while any(crashed[-OVER:]):
        assert len(crashed) < MOST_STEPS, "the scenario never came to its end"
        crashed += asyncio.run(batch(range(1 + len(crashed), 1 + len(crashed) + OVER)))
