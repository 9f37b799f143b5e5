"""One loop over rows that come due: level-triggered passes, one at a time for each key, wake-ups merged.

The database says which rows are due (`due_ms`); wakes and timers in memory only make the loop look sooner. A lost one is a
delay, never a bug. Where several servers share a database each takes the rows that it finds due (`claim`): they come due again
after CLAIM_MS, should it die before their pass is committed. A wake needs no claim: a pass locks its row, and one that comes
second finds nothing to do.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import structlog

from brickyard.domain.clock import Clock
from brickyard.domain.errors import DatabaseTrouble
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

K = TypeVar("K", str, int)

POLL_S = 1.0
CLAIM_MS = 3_000
BATCH = 256  # keys that a poll takes at once
_ALL = 1_000_000
_PAUSE_S = (1.0, 60.0)  # before the poll brings back a key whose pass failed: at first, and in the end


class DueRows(Protocol[K]):
    """Rows with a `due_ms`, in a transaction."""

    def due(self, now_ms: int, limit: int) -> list[K]:
        """Keys of the rows that are due, longest waiting first."""
        ...

    def claim(self, now_ms: int, limit: int, until_ms: int) -> list[K]:
        """The same, of rows that nobody is at; they are due again at `until_ms`."""
        ...


class KeyedLoop(ABC, Generic[K]):
    """`wake` from anywhere on the event loop; `run` until cancelled."""

    def __init__(self, *, name: str, store: Store, clock: Clock, at_once: int) -> None:
        self._name = name
        self._store = store
        self._clock = clock
        self._at_once = at_once
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: dict[K, float] = {}  # in the queue, since when (time.monotonic()); the oldest first
        self._running: set[K] = set()
        self._again: set[K] = set()  # woken while running: one more pass when it is done
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._timed: set[K] = set()  # for the pass of these only a timer has asked
        self._failed: dict[K, tuple[float, float]] = {}  # the last pause, and its end (time.monotonic())

    @abstractmethod
    def rows(self, tx: Tx) -> DueRows[K]:
        """The rows that the keys are of."""

    @abstractmethod
    async def work(self, key: K, *, timed: bool) -> int | None:
        """One pass. Returns when to look again (epoch ms), or None where the poll is soon enough. `timed`: only a timer asked.

        While it raises DatabaseTrouble it is repeated as soon as the database can be used. Any other error is logged, and the
        poll brings the key back after a pause.
        """

    def wake(self, key: K) -> None:
        """Have a pass soon. Merges with a pass that is already waiting."""
        self._timed.discard(key)
        self._put(key)

    @property
    def lag_s(self) -> float:
        """For how long the key has waited for its pass that has waited longest."""
        return time.monotonic() - next(iter(self._waiting.values())) if self._waiting else 0.0

    async def run(self) -> None:
        """Poll for due keys and work on them until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll())
                for _ in range(self._at_once):
                    group.create_task(self._serve())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def first_pass(self) -> None:
        """Look at what is due now, before anything else: what a killed server left behind is picked up here. Where others are at
        work, that is no more than one poll takes."""
        for key in await self._due(_ALL if self._store.alone else BATCH):
            try:
                await self._pass(key)
            except DatabaseTrouble:
                raise
            except Exception:
                self._fail(key)

    def _put(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = time.monotonic()
            self._queue.put_nowait(key)

    async def _due(self, limit: int) -> list[K]:
        now = self._clock.now_ms()
        if self._store.alone:  # nobody else takes them, and a select costs less
            return await self._store.read(lambda tx: self.rows(tx).due(now, limit), background=True)
        return await self._store.write(lambda tx: self.rows(tx).claim(now, limit, now + CLAIM_MS), background=True)

    async def _poll(self) -> None:
        failing = False
        while True:
            await self._store.usable()
            try:
                # What waits here already is enough for now: the rest is for servers that have less to do.
                limit = BATCH if self._store.alone else max(0, BATCH - len(self._waiting))
                for key in await self._due(limit) if limit else ():
                    if self._failed.get(key, (0.0, 0.0))[1] <= time.monotonic():
                        self.wake(key)
                failing = False
            except DatabaseTrouble:
                continue
            except Exception:
                if not failing:
                    log.exception("poll_failed", loop=self._name)
                failing = True
            await asyncio.sleep(POLL_S)

    async def _serve(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.pop(key, None)
            self._running.add(key)
            try:
                await self._until_done(key)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._put(key)

    async def _until_done(self, key: K) -> None:
        while True:
            await self._store.usable()
            self._again.discard(key)  # the pass that begins now sees whatever that was about
            try:
                await self._pass(key)
            except DatabaseTrouble:
                continue
            except Exception:
                self._again.discard(key)  # a pause, not a spin: its row is still due, so the poll brings it back
                self._fail(key)
            return

    async def _pass(self, key: K) -> None:
        timed = key in self._timed
        self._timed.discard(key)
        due_ms = await self.work(key, timed=timed)
        if self._failed.pop(key, None) is not None:
            log.info("pass_recovered", loop=self._name, key=key)
        self._set_timer(key, due_ms)

    def _fail(self, key: K) -> None:
        """Called where the error is handled. It is logged when it is the first one of the key."""
        pause_s, longest_s = self._failed.get(key, (_PAUSE_S[0] / 2, 0.0))[0], _PAUSE_S[1]
        if key not in self._failed:
            log.exception("pass_failed", loop=self._name, key=key)
        pause_s = min(2 * pause_s, longest_s)
        self._failed[key] = (pause_s, time.monotonic() + pause_s)

    def _set_timer(self, key: K, due_ms: int | None) -> None:
        if (old := self._timers.pop(key, None)) is not None:
            old.cancel()
        if due_ms is not None:
            delay_s = max(0.0, (due_ms - self._clock.now_ms()) / 1000)
            self._timers[key] = asyncio.get_running_loop().call_later(delay_s, self._ring, key)

    def _ring(self, key: K) -> None:
        """A key's time has come."""
        del self._timers[key]
        if key not in self._waiting and key not in self._running:
            self._timed.add(key)
        self._put(key)
