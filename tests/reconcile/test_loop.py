"""The loop itself: wakes merge, one pass a key, timers, pauses, and claims where others are at work."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import pytest
import structlog.testing

from brickyard.domain.clock import SystemClock
from brickyard.domain.errors import DatabaseAway
from brickyard.reconcile import aside
from brickyard.reconcile import loop as module
from brickyard.reconcile.loop import BATCH, CLAIM_MS, KeyedLoop
from tests.support.patience import PATIENCE_S

CLOCK = SystemClock()


class Database:
    """Due rows in memory; `away` while it cannot be used."""

    def __init__(self, *, alone: bool = True) -> None:
        self.alone = alone
        self.tracing = None
        self.rows: dict[str, int] = {}
        self.limits: list[int] = []
        self.claimed: list[list[str]] = []
        self.back = asyncio.Event()
        self.back.set()

    async def usable(self) -> None:
        await self.back.wait()

    async def read(self, work: Callable[[Any], Any], *, background: bool) -> Any:
        assert background
        return work(self)

    async def write(self, work: Callable[[Any], Any], *, background: bool) -> Any:
        assert background
        assert not self.alone, "a select costs less"
        return work(self)

    def due(self, now_ms: int, limit: int) -> list[str]:
        return [key for key, at in self.rows.items() if at <= now_ms][:limit]

    def woken(self, limit: int) -> list[str]:
        return self.due(0, limit)

    def claim(self, now_ms: int, limit: int, until_ms: int, besides: Collection[str] = ()) -> list[str]:
        assert until_ms == now_ms + CLAIM_MS
        self.limits.append(limit)
        found = [key for key in self.due(now_ms, 1_000) if key not in besides][:limit]
        self.rows |= dict.fromkeys(found, until_ms)
        self.claimed.append(found)
        return found


class Passes(KeyedLoop[str]):
    """A loop that notes every pass, and who is at one."""

    def __init__(self, database: Database, *, at_once: int = 4) -> None:
        store: Any = database
        super().__init__(name="test", store=store, clock=CLOCK, at_once=at_once)
        self.database = database
        self.done: list[tuple[str, bool]] = []
        self.at: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.changed = asyncio.Condition()
        self.then: Callable[[str], Awaitable[int | None] | int | None] = lambda _: None

    def rows(self, tx: Any) -> Any:
        return self.database

    async def work(self, key: str, *, timed: bool) -> int | None:
        assert key not in self.at, "one at a time"
        self.at.append(key)
        try:
            async with self.changed:
                self.changed.notify_all()
            await self.gate.wait()
            self.database.rows.pop(key, None)
            self.done.append((key, timed))
            due = self.then(key)
            assert due is None or isinstance(due, int)
            return due
        finally:
            self.at.remove(key)
            async with self.changed:
                self.changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(condition)

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[Passes]:
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.done]


@pytest.fixture
async def passes() -> AsyncIterator[Passes]:
    async with Passes(Database(alone=True)).alive() as passes:
        yield passes


async def test_a_wake_starts_its_pass_at_once(passes: Passes) -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the workers wait for work
    passes.gate.clear()
    passes.wake("a")
    for _ in range(3):  # turns of the event loop
        await asyncio.sleep(0)
    assert passes.at == ["a"]
    passes.gate.set()


async def test_wakes_merge_and_a_wake_during_a_pass_makes_one_more(passes: Passes) -> None:
    passes.gate.clear()
    for _ in range(5):
        passes.wake("a")
    await passes.until(lambda: passes.at == ["a"])
    for _ in range(5):
        passes.wake("a")
    passes.wake("b")
    await passes.until(lambda: passes.at == ["a", "b"])
    passes.gate.set()
    await passes.until(lambda: len(passes.done) == 3 and not passes.at)
    assert sorted(passes.keys) == ["a", "a", "b"]


async def test_the_lag_is_the_longest_wait_for_a_worker() -> None:
    async with Passes(Database(alone=True), at_once=1).alive() as passes:
        passes.gate.clear()
        passes.wake("a")
        await passes.until(lambda: passes.at == ["a"])
        assert passes.lag_s == 0.0
        passes.wake("b")
        await asyncio.sleep(0.02)
        assert passes.lag_s >= 0.02
        passes.gate.set()
        await passes.until(lambda: passes.keys == ["a", "b"])
        assert passes.lag_s == 0.0


async def test_a_pass_says_when_to_look_again_and_a_wake_comes_first(passes: Passes) -> None:
    began = CLOCK.now_ms()
    passes.then = lambda _: began + 60 if len(passes.done) == 1 else None
    passes.wake("a")
    await passes.until(lambda: len(passes.done) == 2)
    assert CLOCK.now_ms() >= began + 59  # a timer may ring a moment early
    assert passes.done == [("a", False), ("a", True)], "the second was a timer's"
    passes.then = lambda _: CLOCK.now_ms() + 1_000_000
    passes.wake("a")
    passes.wake("a")
    await passes.until(lambda: len(passes.done) == 3)
    assert passes.done[2] == ("a", False)


async def test_what_is_due_is_found_without_a_wake() -> None:
    passes = Passes(Database())
    passes.database.rows = {"a": 0, "b": 0, "later": 2**60}
    async with passes.alive():
        await passes.until(lambda: len(passes.done) == 2)
        assert sorted(passes.keys) == ["a", "b"]


async def test_beside_other_servers_rows_are_claimed_and_no_more_than_there_is_time_for() -> None:
    passes = Passes(Database(alone=False), at_once=1)
    passes.gate.clear()
    for number in range(11):
        passes.wake(f"w{number}")
    passes.database.rows = dict.fromkeys((f"c{number:03}" for number in range(300)), 1)
    async with passes.alive():
        await passes.until(lambda: len(passes.at) == 1)
        limit = passes.database.limits[0]
        assert limit in (BATCH - 11, BATCH - 10)
        assert len(passes.database.due(CLOCK.now_ms(), 1_000)) == 300 - limit, "the others' share"
        passes.gate.set()


async def test_what_another_server_has_woken_is_left_to_it_for_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)

    passes = Passes(Database(alone=False))
    passes.database.rows = {"woken": 0, "timed": 1}
    async with passes.alive():
        await passes.until(lambda: len(passes.done) == 2)
    assert passes.database.claimed[:2] == [["timed"], ["woken"]]


async def test_the_first_pass_beside_others_is_one_claim() -> None:
    passes = Passes(Database(alone=False))
    passes.database.rows = dict.fromkeys((f"c{number:03}" for number in range(BATCH + 5)), 0)
    await passes.first_pass()
    assert len(passes.done) == BATCH


async def test_an_error_is_logged_once_and_the_poll_brings_the_key_back_after_longer_and_longer_pauses(
    passes: Passes, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    monkeypatch.setattr(aside, "PAUSE_S", (0.05, 0.2))

    loop = asyncio.get_running_loop()
    times: list[float] = []

    def fail(key: str) -> None:
        times.append(loop.time())
        passes.database.rows[key] = 0  # nothing was committed
        if len(times) <= 3:
            raise ValueError("a bug")
        del passes.database.rows[key]

    passes.then = fail
    with structlog.testing.capture_logs() as logs:
        passes.wake("a")
        await passes.until(lambda: len(times) == 4 and not passes.at)
        await asyncio.sleep(0)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True)), pauses
    assert [each["event"] for each in logs] == ["pass_failed", "pass_recovered"]


async def test_a_wake_does_not_wait_for_the_pause_after_an_error(passes: Passes) -> None:
    def fail(_: str) -> None:
        if len(passes.done) == 1:
            raise ValueError("a bug")

    passes.then = fail
    with structlog.testing.capture_logs():
        passes.wake("a")
        await passes.until(lambda: len(passes.done) == 1 and not passes.at)
        passes.wake("a")
        await passes.until(lambda: len(passes.done) == 2)


async def test_trouble_with_the_database_is_waited_for_and_the_pass_repeated(passes: Passes) -> None:
    def fail(_: str) -> None:
        if len(passes.done) == 1:
            passes.database.back.clear()
            raise DatabaseAway("gone")

    passes.then = fail
    passes.wake("a")
    await passes.until(lambda: len(passes.done) == 1 and not passes.at)
    await asyncio.sleep(0.02)
    assert len(passes.done) == 1, "it waits"
    passes.database.back.set()
    await passes.until(lambda: len(passes.done) == 2)


async def test_a_poll_that_fails_keeps_no_pass_from_its_work_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_S", 0.02)
    passes = Passes(Database())
    passes.database.rows = {"a": 0}
    works = passes.database.due
    polls = 0

    def fail(now_ms: int, limit: int) -> list[str]:
        nonlocal polls
        polls += 1
        raise ValueError("unforeseen")

    with structlog.testing.capture_logs() as logs:
        monkeypatch.setattr(passes.database, "due", fail)
        async with asyncio.timeout(PATIENCE_S), passes.alive():
            passes.gate.clear()
            passes.wake("b")
            while polls < 4:
                await asyncio.sleep(0.005)
            assert passes.at == ["b"], "it was not cut off"
            assert "unforeseen" in passes.trouble
            passes.gate.set()
            await passes.until(lambda: passes.keys == ["b"])
            monkeypatch.setattr(passes.database, "due", works)
            await passes.until(lambda: passes.keys == ["b", "a"])
            assert passes.trouble == ""
    assert [each["event"] for each in logs] == ["poll_failed", "poll_recovered"]
