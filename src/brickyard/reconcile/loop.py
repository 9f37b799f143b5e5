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
from brickyard.domain.errors import DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.periodic import Database, Loop, Periodic
from brickyard.reconcile.aside import Aside
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

K = TypeVar("K", str, int)

POLL_S = 1.0
CLAIM_MS = 3_000
BATCH = 256  # keys per poll
_MANY = 4 * BATCH  # woken rows per look
_ALL = 1_000_000
_LONGEST_S = 60.0  # between two polls that fail
_TOLERATED = 2  # polls that fail in a row, before it is told


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
        self.name = name
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
        self._failed: Aside[K] = Aside("pass", loop=name)
        self._polls: _Polls[K] = _Polls(self, store)

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
        if self._store.tracing is not None:
            self._store.tracing.remember((str(key),))
        self._timed.discard(key)
        self._put(key)

    @property
    def trouble(self) -> str:
        return self._polls.trouble

    @property
    def lag_s(self) -> float:
        """How long the longest-waiting key has waited for its pass."""
        return time.monotonic() - next(iter(self._waiting.values())) if self._waiting else 0.0

    async def run(self) -> None:
        """Polls for due keys and works on them until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._polls.run())
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
                self._failed.failed(key)

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
        for key in self._failed.ready(await self._due(limit, patient=True) if limit else ()):
            if key not in self._running:  # it was woken in memory as well, if anything has changed since its pass began
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
                self._failed.failed(key)
            return

    async def _pass(self, key: K) -> None:
        timed = key in self._timed
        self._timed.discard(key)
        if (tracing := self._store.tracing) is None:
            due_ms = await self.work(key, timed=timed)
        else:
            with tracing.caused(str(key), f"pass of {self.name}", {"brickyard.key": str(key)}):
                due_ms = await self.work(key, timed=timed)
        self._failed.worked(key)
        self._set_timer(key, due_ms)

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
    """Asks the database what is due. Whatever keeps it from that, passes go on: wakes and timers ask for them, too."""

    def __init__(self, loop: KeyedLoop[K], database: Database) -> None:
        super().__init__(every_s=POLL_S, database=database)
        self._loop: KeyedLoop[K] = loop
        self._failures = 0  # in a row
        self._why = ""

    @property
    def trouble(self) -> str:
        return self._why if self._failures > _TOLERATED else ""

    async def run_once(self) -> None:
        try:
            await self._loop.poll()
        except (DatabaseTrouble, RequestLimitExceeded):
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            if why != self._why:
                log.exception("poll_failed", loop=self._loop.name)
            self._failures, self._why = self._failures + 1, why
            self.every_s = min(2 * self.every_s, _LONGEST_S)
        else:
            if self._failures:
                log.info("poll_recovered", loop=self._loop.name)
            self._failures, self._why, self.every_s = 0, "", POLL_S
