"""The store: units of work on SQLite or PostgreSQL.

A unit of work is one synchronous function of a `Tx`. It runs in one hop to a worker thread and is committed before `write`
returns: acknowledged means committed, and nobody can await a provider inside a transaction. SQLite has one writer thread (BEGIN
IMMEDIATE, so a writer's snapshot is never stale) and a few readers; PostgreSQL runs writers side by side, and `get` of a row
inside `write` locks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from brickyard.domain.errors import ApiError, DatabaseAway, DatabaseTrouble, DatabaseUnsure, RequestLimitExceeded
from brickyard.domain.tracing import Tracing
from brickyard.store import companion, keptlog, reserve
from brickyard.store.commits import Commits, Listener
from brickyard.store.opening import ANSWER_S, Opened, open_database
from brickyard.store.patience import is_patient, patiently
from brickyard.store.prepared import direct
from brickyard.store.sharing import Always, Sharing
from brickyard.store.trouble import Health
from brickyard.store.tx import Tx
from brickyard.store.units import Ticket, Unit
from brickyard.store.writer import Writer

T = TypeVar("T")

ASK_AGAIN_S = (0.25, 5.0)  # shortest and longest interval for asking a database that cannot be used
WAIT_S = 4.0  # a request's unit that has not begun by then is given up: it had no effect, so the client may retry
HUNG_S = 3.0  # a database busy with one thing for this long does not answer; if less, work has piled up
CLOSE_S = 12.0  # longer than a connection to PostgreSQL waits for an answer
PROBE = "probe"
_PROBE_BYTES = 256 * 1024  # more than the free part of SQLite's write-ahead log, so that a full disk shows


class Store:
    """Open with `Store.open(url)`; `close()` when done. Call methods from one event loop only.

    Every method that reads or writes raises DatabaseTrouble if the database is unavailable or its disk is full.
    """

    def __init__(self, opened: Opened, *, url: str, sharing: Sharing) -> None:
        self.url = url
        self._file = opened.file  # of SQLite
        self.tracing: Tracing | None = None  # set before the store is used, on servers that trace
        self._engine = opened.writing
        self._reading_engine = opened.reading
        self._sharing = sharing
        self._readers = ThreadPoolExecutor(opened.readers, thread_name_prefix="store-read")
        self._reading: dict[int, float] = {}  # thread -> when its current read began
        self._health = Health()
        postgres = url if self._engine.dialect.name == "postgresql" else ""
        self._commits = Commits(sharing=sharing, health=self._health, file=self._file, postgres=postgres)
        self._writer = Writer(engine=self._engine, threads=opened.writers, committer=self._commits)
        self._asking = asyncio.Lock()
        self._checking: asyncio.Task[DatabaseTrouble | None] | None = None

    @classmethod
    def open(cls, url: str, *, sharing: Sharing | None = None, creates: Callable[[], None] = lambda: None) -> Store:
        """Connects and brings the schema up to date. Calls `creates` before it makes one in an empty database. Raises StoreError,
        and what `creates` raises.

        `sharing`: the server's membership. By default nobody else ever writes to an SQLite database, and others always may to a
        PostgreSQL one.
        """
        opened = open_database(url, creates)
        return cls(opened, url=url, sharing=sharing or Always(alone=opened.writing.dialect.name == "sqlite"))

    async def keep_reserve(self) -> bool:
        """Reserves room for writes on a full disk (`store.reserve`), if missing. Returns True if it did. PostgreSQL needs none.

        Raises OperationalError if there is no room left.
        """
        database = self._engine.url.database
        if self._engine.dialect.name != "sqlite" or not database:
            return False
        if not await self.read(lambda tx: reserve.missing(tx, Path(database)), background=True):
            return False
        await self.write(reserve.take, background=True)
        await self.write(reserve.free, background=True)
        return True

    def on_commit(self, listener: Listener) -> None:
        """Calls `listener` on the event loop with what a commit changed: before `write` returns or, for a commit of another
        server, shortly after. The argument is shared with other listeners."""
        self._commits.on_commit(listener)

    def on_gap(self, listener: Callable[[], None]) -> None:
        """Calls `listener` on the event loop when commits of other servers may have been missed, or servers come or go."""
        self._commits.on_gap(listener)

    @property
    def alone(self) -> bool:
        """Whether no other process writes to this database, so that reads may be cached until this store reports a change.
        This may end at any time; `on_gap` listeners are told."""
        return self._sharing.alone

    def gap(self) -> None:
        """Tells everyone who caches something or waits for something that a commit may have been missed. For any thread."""
        self._commits.gap()

    @property
    def told(self) -> bool:
        """Whether listeners hear of every server's commits, sooner or later. If not, poll."""
        return self.alone or self._commits.listening

    async def read(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        """Runs `work` on a snapshot (PostgreSQL: each statement on its own). It must not write. Unless `background` (nobody waits
        for it), raises RequestLimitExceeded or DatabaseAway if it has not begun after WAIT_S."""
        if not background and is_patient():
            return await patiently(lambda: self._read_soon(work, background=False))
        return await self._read_soon(work, background=background)

    async def _read_soon(self, work: Callable[[Tx], T], *, background: bool) -> T:
        self._commits.tell_on(asyncio.get_running_loop())
        call = self._readers.submit(self._read, work)
        reading, given_up = asyncio.wrap_future(call), False
        if background:
            return await reading

        def give_up() -> None:
            nonlocal given_up
            given_up = call.cancel()

        patience = asyncio.get_running_loop().call_later(WAIT_S, give_up)
        try:
            return await reading
        except asyncio.CancelledError:
            if given_up:
                raise self._given_up() from None
            raise
        finally:
            patience.cancel()

    async def write(self, work: Callable[[Tx], T], *, background: bool = False, inserts: bool = False) -> T:
        """Runs `work` in a transaction and commits it. An exception rolls back everything. `work` may run again after a conflict
        with another writer, so it must have no effect except on its `Tx`. Cancelling the caller does not stop it.

        `background`: nobody waits for it, so requests go first. Requests that have not begun after WAIT_S are given up: raises
        RequestLimitExceeded or DatabaseAway. `inserts`: it locks nothing, so that it may share a transaction (`store.batch`).
        """
        if not background and (beside := companion.wanting()) is not None:
            return await beside.write(work, functools.partial(self._write, background=False, inserts=inserts))
        return await self._write(work, background=background, inserts=inserts)

    async def before_effect(self) -> None:
        """Commits the audit entry of the call under way, unless that was done. Call it before each effect outside the database:
        if it raises, nothing has been done, and the client may repeat the call; afterwards it may not."""
        if (beside := companion.wanting()) is not None:
            await beside.write(_no_change, self._commit_entry)

    async def _commit_entry(self, work: Callable[[Tx], T]) -> T:
        try:
            return await self._write(work, background=False, inserts=True)
        except DatabaseUnsure as error:  # at worst the repeated call has two entries
            raise DatabaseAway(error.reason) from error

    async def _write(self, work: Callable[[Tx], T], *, background: bool, inserts: bool) -> T:
        if self.tracing is None:
            return await self._write_untraced(work, background=background, inserts=inserts)
        with self.tracing.child("commit", {"db.system.name": self._engine.dialect.name}):
            return await self._write_untraced(work, background=background, inserts=inserts)

    async def _write_untraced(self, work: Callable[[Tx], T], *, background: bool, inserts: bool) -> T:
        if not background and is_patient():
            return await patiently(lambda: self._write_soon(work, background=False, inserts=inserts))
        return await self._write_soon(work, background=background, inserts=inserts)

    async def _write_soon(self, work: Callable[[Tx], T], *, background: bool, inserts: bool) -> T:
        loop = asyncio.get_running_loop()
        self._commits.tell_on(loop)
        future: asyncio.Future[T] = loop.create_future()
        ticket = self._writer.put(Unit(work, future, loop, inserts), background=background)
        if background:
            return await future
        patience = loop.call_later(WAIT_S, self._give_up, ticket, future)
        try:
            return await future
        finally:
            patience.cancel()

    @property
    def lag_s(self) -> float:
        """How long the longest-waiting write has waited."""
        return self._writer.lag_s

    @property
    def _busy_s(self) -> float:
        """How long the database has been busy with its longest-running operation."""
        began = list(self._reading.values())
        return max(self._writer.busy_s, time.monotonic() - min(began) if began else 0.0)

    def _give_up(self, ticket: Ticket, future: asyncio.Future[T]) -> None:
        if self._writer.withdraw(ticket) and not future.done():
            future.set_exception(self._given_up())

    def _given_up(self) -> ApiError:
        """Why something was not done in time."""
        if self._health.trouble is not None or self._busy_s > HUNG_S:
            return DatabaseAway(f"it has not answered for {self._busy_s:.0f} s")
        return RequestLimitExceeded(
            f"The workspace is overloaded: this call could not be started within {WAIT_S:g} s. Nothing was done. Try again."
        )

    def _read(self, work: Callable[[Tx], T]) -> T:
        me = threading.get_ident()
        self._reading[me] = time.monotonic()
        try:
            return self.read_sync(work)
        finally:
            del self._reading[me]

    def read_sync(self, work: Callable[[Tx], T]) -> T:
        """`read` without an event loop."""
        try:
            with self._reading_engine.connect().execution_options(reading=True) as connection, connection.begin():
                return work(Tx(direct(connection), locking=False))
        except Exception as error:
            trouble = self._health.translated(error)
            if trouble is error:
                raise
            raise trouble from error

    def write_sync(self, work: Callable[[Tx], T]) -> T:
        """`write` without an event loop, for start-up and tests."""
        done: Future[T] = Future()
        self._writer.put(Unit(work, done, None), background=False)
        return done.result()

    async def usable(self) -> None:
        """Returns at once or, while the database cannot be used, as soon as it can be used again.

        Loops wait here before each turn: one of them asks, less and less often, and the others wait for its result.
        """
        if self._health.trouble is None:
            return
        async with self._asking:
            pause_s, longest_s = ASK_AGAIN_S
            while self._health.trouble is not None:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, guards nothing
                pause_s = min(2 * pause_s, longest_s)
                await self.check()

    async def check(self) -> DatabaseTrouble | None:
        """Checks whether the database can be used; returns the trouble if not. After a recent failure, checks with a write.

        One check at a time answers all who ask meanwhile: hundreds of probes at once would each wait for the others' reads.

        Never raises: every loop waits for it, and an error of a kind that nobody has thought of must not end them.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        return await asyncio.shield(self._checking)

    async def _check(self) -> DatabaseTrouble | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._health.trouble is None:
                    await self.read(self._read_probe)
                else:
                    await self.write(_write_probe)
                    await self.write(lambda tx: tx.delete_meta(PROBE))
                    self._health.recovered()
        except DatabaseTrouble as error:
            return error
        except TimeoutError:
            return self._health.trouble or DatabaseAway(f"no answer within {ANSWER_S:g} s")
        except Exception as error:
            return DatabaseAway(f"{type(error).__name__}: {error}")
        return None

    def close(self) -> None:
        """Finishes running work and closes all connections, within a time limit even if the database hangs."""
        self._commits.close()
        self._writer.close(limit_s=CLOSE_S)
        self._readers.shutdown(wait=self._health.trouble is None and self._busy_s < HUNG_S, cancel_futures=True)
        with self._log_kept():
            self._engine.dispose()
        self._reading_engine.dispose()

    def _log_kept(self) -> AbstractContextManager[None]:
        """SQLite keeps its log when its connections are closed within."""
        if self._file is None or isinstance(self._health.trouble, DatabaseAway):
            return contextlib.nullcontext()
        complete = False
        with (
            contextlib.suppress(DBAPIError, sqlite3.Error, NoConnection),
            contextlib.closing(self._engine.raw_connection()) as raw,
        ):
            busy, frames, written = raw.cursor().execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            complete = not busy and frames == written
        return keptlog.kept(self._file.path, complete=complete, alone=self._file.alone)

    def _read_probe(self, tx: Tx) -> None:
        tx.get_meta(PROBE)
        if self._file is not None:
            self._file.check()


def _no_change(tx: Tx) -> None:
    """The work of a call whose effect is elsewhere."""


def _write_probe(tx: Tx) -> None:
    tx.lock(PROBE)  # a loop and a health call may check at the same time
    tx.set_meta(PROBE, "x" * _PROBE_BYTES)
