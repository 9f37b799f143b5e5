"""A loop over rows that become due: level-triggered passes, one at a time per key, with wake-ups merged.

The database says which rows are due (`due_ms`); wakes and timers in memory only make the loop look sooner. A lost wake is a
delay, never a bug. Servers that share a database each claim the due rows that they find (`claim`): these are due again after
CLAIM_MS, in case the server dies before their pass is committed. A wake needs no claim: a pass locks its row, and a second one
finds nothing to do.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

import structlog

from brickyard.domain.clock import Clock
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.periodic import Database, Loop, Periodic
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

K = TypeVar("K", str, int)

POLL_S = 1.0
CLAIM_MS = 3_000
BATCH = 256  # keys per poll
_MANY = 4 * BATCH  # woken rows per look
_ALL = 1_000_000
_PAUSE_S = (1.0, 60.0)  # first and longest pause before the poll retries a key whose pass failed


class DueRows(Protocol[K]):
    """Rows with a `due_ms`, within a transaction."""

    def due(self, now_ms: int, limit: int) -> list[K]:
        """Keys of the rows that are due, longest waiting first."""
        ...

    def woken(self, limit: int) -> list[K]:
        """Keys of rows that are due because of a change."""
        ...

    def claim(self, now_ms: int, limit: int, until_ms: int, besides: Collection[K] = ()) -> list[K]:
        """Like `due`, but skips rows that others have locked and those `besides`; the rows are due again at `until_ms`."""
        ...


class KeyedLoop(Loop, Generic[K]):
    """`wake` from anywhere on the event loop."""

    def __init__(self, *, name: str, store: Store, clock: Clock, at_once: int) -> None:
        self._name = name
        self._store = store
        self._clock = clock
        self._at_once = at_once
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: dict[K, float] = {}  # queued, and since when (time.monotonic()); oldest first
        self._running: set[K] = set()
        self._again: set[K] = set()  # woken while running: they get one more pass
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._timed: set[K] = set()  # only a timer asked for the next pass of these
        self._seen: set[K] = set()  # rows that the last look found woken, if there are other servers
        self._failed: dict[K, tuple[float, float]] = {}  # the last pause, and when it ends (time.monotonic())

    @abstractmethod
    def rows(self, tx: Tx) -> DueRows[K]:
        """The rows that the keys belong to."""

    @abstractmethod
    async def work(self, key: K, *, timed: bool) -> int | None:
        """One pass. Returns when to look again (epoch ms), or None if the poll is soon enough. `timed`: only a timer asked.

        If it raises DatabaseTrouble, it is repeated as soon as the database can be used. Any other error is logged, and the poll
        retries the key after a pause.
        """

    def wake(self, key: K) -> None:
        """Requests a pass soon. Merges with a pass that is already waiting."""
        self._timed.discard(key)
        self._put(key)

    @property
    def lag_s(self) -> float:
        """How long the longest-waiting key has waited for its pass."""
        return time.monotonic() - next(iter(self._waiting.values())) if self._waiting else 0.0

    async def run(self) -> None:
        """Polls for due keys and works on them until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_Polls(self, self._store).run())
                for _ in range(self._at_once):
                    group.create_task(self._serve())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def first_pass(self) -> None:
        """Handles what is due now, before anything else: this picks up what a killed server left behind. If other servers are
        running, handles at most one poll's worth."""
        for key in await self._due(_ALL if self._store.alone else BATCH, patient=False):
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

    async def _due(self, limit: int, *, patient: bool) -> list[K]:
        """Keys that are due. `patient`: the server that wakes a row makes its pass, so only rows that were woken before the last
        look as well are taken from other servers: theirs may have died."""
        now = self._clock.now_ms()
        if self._store.alone:  # nobody else takes them, and a select is cheaper
            return await self._store.read(lambda tx: self.rows(tx).due(now, limit), background=True)
        seen = self._seen

        def look(tx: Tx) -> tuple[list[K], set[K]]:
            woken = set(self.rows(tx).woken(_MANY)) if patient else set()
            return self.rows(tx).claim(now, limit, now + CLAIM_MS, woken - seen), woken

        keys, self._seen = await self._store.write(look, background=True)
        return keys

    async def poll(self) -> None:
        """Wake what is due."""
        # What already waits here is enough for now: the rest is left to servers with less to do.
        limit = BATCH if self._store.alone else max(0, BATCH - len(self._waiting))
        for key in await self._due(limit, patient=True) if limit else ():
            # What is under way was woken in memory as well, if anything has changed since it began.
            if key not in self._running and self._failed.get(key, (0.0, 0.0))[1] <= time.monotonic():
                self.wake(key)

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
            self._again.discard(key)  # the pass that begins now sees the change behind that wake
            try:
                await self._pass(key)
            except DatabaseTrouble:
                continue
            except Exception:
                self._again.discard(key)  # pause instead of spinning: the row is still due, so the poll brings it back
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
        """Call this in the except block. Logs only the key's first error."""
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
        """The key's time has come."""
        del self._timers[key]
        if key not in self._waiting and key not in self._running:
            self._timed.add(key)
        self._put(key)


class _Polls(Periodic, Generic[K]):
    """Asks the database what is due."""

    def __init__(self, loop: KeyedLoop[K], database: Database) -> None:
        super().__init__(every_s=POLL_S, database=database)
        self._loop: KeyedLoop[K] = loop

    async def run_once(self) -> None:
        await self._loop.poll()
