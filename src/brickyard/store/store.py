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
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from brickyard.domain.errors import ApiError, DatabaseAway, DatabaseTrouble, RequestLimitExceeded
from brickyard.store import postgres, reserve
from brickyard.store.changes import ChangeFeed
from brickyard.store.changeset import Changes
from brickyard.store.servers import may_commit
from brickyard.store.trouble import Health
from brickyard.store.tx import Tx
from brickyard.store.writer import Outcome, Ticket, Unit, Writer

T = TypeVar("T")
Listener = Callable[[Changes], None]

ASK_AGAIN_S = (0.25, 5.0)  # shortest and longest interval for asking a database that cannot be used
ANSWER_S = 3.0  # a database that takes longer for a trivial statement cannot be used
WAIT_S = 4.0  # a request's unit that has not begun by then is given up: it had no effect, so the client may retry
HUNG_S = 3.0  # a database busy with one thing for this long does not answer; if less, work has piled up
MEMBER_S = 1.0  # how long a commit waits while another server is alone
CLOSE_S = 12.0  # longer than a connection to PostgreSQL waits for an answer
_READERS, _WRITERS = 4, 8  # threads; SQLite has one writer
_PROBE = "probe"
_PROBE_BYTES = 256 * 1024  # more than the free part of SQLite's write-ahead log, so that a full disk shows
_MIGRATIONS = Path(__file__).parent / "migrations"


class StoreError(Exception):
    """The database cannot be used. The message is one line for an administrator."""


class Store:
    """Open with `Store.open(url)`; `close()` when done. Call methods from one event loop only.

    Every method that reads or writes raises DatabaseTrouble if the database is unavailable or its disk is full.
    """

    def __init__(self, *, engine: Engine, alone: Callable[[], bool], readers: int, writers: int, feed_url: str = "") -> None:
        self._engine = engine
        self._alone = alone
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="store-read")
        self._reading: dict[int, float] = {}  # thread -> when its current read began
        self._listeners: list[Listener] = []
        self._gap_listeners: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._feed = self._open_feed(feed_url) if feed_url else None
        announce = self._announce if self._feed is not None else None
        self._writer = Writer(engine=engine, threads=writers, deliver=self._deliver, announce=announce)
        self._health = Health()
        self._asking = asyncio.Lock()

    @classmethod
    def open(cls, url: str, *, alone: Callable[[], bool] | None = None) -> Store:
        """Connects and brings the schema up to date. Raises StoreError.

        `alone` tells whether no other process currently writes to this database (`Membership.alone`). By default that is always
        true for SQLite and never for PostgreSQL.
        """
        parsed = make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
        try:
            engine = _sqlite_engine(url) if sqlite else _postgres_engine(url)
            _bring_up_to_date(engine if sqlite else postgres.engine(url, bounded=False, poolclass=NullPool))
        except (DBAPIError, sqlite3.Error) as error:
            reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
            where = parsed.database if sqlite else parsed.render_as_string(hide_password=True)
            raise StoreError(f"cannot open the database {where}: {reason}") from error
        # One writer: SQLite has one write lock, and queueing here is fairer and faster than its busy handler.
        return cls(
            engine=engine,
            alone=alone or (lambda: sqlite),
            readers=_READERS,
            writers=1 if sqlite else _WRITERS,
            feed_url="" if sqlite else url,
        )

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
        self._listeners.append(listener)

    def on_gap(self, listener: Callable[[], None]) -> None:
        """Calls `listener` on the event loop when commits of other servers may have been missed, or servers come or go."""
        self._gap_listeners.append(listener)

    @property
    def alone(self) -> bool:
        """Whether no other process writes to this database, so that reads may be cached until this store reports a change.
        This may end at any time; `on_gap` listeners are told."""
        return self._alone()

    def alone_changed(self) -> None:
        """Tells everyone who caches something or waits for something. For any thread."""
        self._post(self._tell_gap)

    @property
    def told(self) -> bool:
        """Whether listeners hear of every server's commits, sooner or later. If not, poll."""
        return self.alone or (self._feed is not None and self._feed.listening)

    async def read(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        """Runs `work` on a snapshot. It must not write. Unless `background` (nobody waits for it), raises RequestLimitExceeded or
        DatabaseAway if it has not begun after WAIT_S."""
        self._loop = asyncio.get_running_loop()
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

    async def write(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        """Runs `work` in a transaction and commits it. An exception rolls back everything. `work` may run again after a conflict
        with another writer, so it must have no effect except on its `Tx`. Cancelling the caller does not stop it.

        `background`: nobody waits for it, so requests go first. Requests that have not begun after WAIT_S are given up: raises
        RequestLimitExceeded or DatabaseAway.
        """
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        ticket = self._writer.put(Unit(work, functools.partial(_settle, future), loop), background=background)
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
            with self._engine.connect().execution_options(reading=True) as connection:
                return work(Tx(connection, locking=False))
        except Exception as error:
            trouble = self._health.translated(error)
            if trouble is error:
                raise
            raise trouble from error

    def write_sync(self, work: Callable[[Tx], T]) -> T:
        """`write` without an event loop, for start-up and tests."""
        done: Future[T] = Future()
        self._writer.put(Unit(work, functools.partial(_settle, done), None), background=False)
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
        """Checks whether the database can be used; returns the trouble if not. After a recent failure, checks with a write."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._health.trouble is None:
                    await self.read(lambda tx: tx.get_meta(_PROBE))
                else:
                    await self.write(_write_probe)
                    await self.write(lambda tx: tx.delete_meta(_PROBE))
                    self._health.recovered()
        except DatabaseTrouble as error:
            return error
        except TimeoutError:
            return self._health.trouble or DatabaseAway(f"no answer within {ANSWER_S:g} s")
        return None

    def close(self) -> None:
        """Finishes running work and closes all connections, within a time limit even if the database hangs."""
        if self._feed is not None:
            self._feed.close()
        self._writer.close(limit_s=CLOSE_S)
        self._readers.shutdown(wait=self._health.trouble is None and self._busy_s < HUNG_S, cancel_futures=True)
        self._engine.dispose()

    def _open_feed(self, url: str) -> ChangeFeed:
        return ChangeFeed(
            connect=lambda: postgres.connect(url),
            changed=self._tell,
            gap=self._tell_gap,
            post=self._post,
        )

    def _announce(self, connection: Connection, changed: Changes) -> None:
        """Runs before a commit on PostgreSQL: announces its changes to the other servers.

        If this server has lost its membership, another one may be alone meanwhile and cache its reads: then nothing of this
        server may be committed. While a server comes or goes, that is over in a moment. Raises DatabaseAway.
        """
        assert self._feed is not None  # noqa: S101 - only called with one
        until = time.monotonic() + MEMBER_S
        while not self._alone():
            if may_commit(connection):
                self._feed.announce(connection, changed)
                return
            if time.monotonic() > until:
                raise DatabaseAway("another server has it for itself while this one joins again")
            time.sleep(0.01)

    def _tell(self, changed: Changes) -> None:
        for listener in self._listeners:
            listener(changed)

    def _tell_gap(self) -> None:
        for listener in self._gap_listeners:
            listener()

    def _post(self, work: Callable[[], None]) -> None:
        """Runs it on the event loop, or here if there is none."""
        if self._loop is None or self._loop.is_closed():
            work()
        else:
            with contextlib.suppress(RuntimeError):  # it was just closed, so nobody waits there
                self._loop.call_soon_threadsafe(work)

    def _deliver(self, outcomes: list[Outcome]) -> None:
        """Called on a writer's thread. Listeners run before the callers that await the writes."""
        outcomes = [
            msgspec.structs.replace(each, error=self._health.translated(each.error)) if each.error else each for each in outcomes
        ]
        changed = Changes()
        for outcome in outcomes:
            if outcome.changed is not None:
                changed.add(outcome.changed)
        awaited = [outcome for outcome in outcomes if outcome.unit.loop is not None]

        def tell() -> None:
            if changed:
                self._tell(changed)
            for outcome in awaited:
                outcome.unit.done(outcome)

        self._post(tell)  # one call for a whole transaction: waking the event loop from another thread is expensive
        for outcome in outcomes:
            if outcome.unit.loop is None:
                outcome.unit.done(outcome)


def _write_probe(tx: Tx) -> None:
    tx.lock(_PROBE)  # a loop and a health call may check at the same time
    tx.set_meta(_PROBE, "x" * _PROBE_BYTES)


def _settle(future: asyncio.Future[T] | Future[T], outcome: Outcome) -> None:
    if future.done():
        return
    if outcome.error is not None:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.result)


def _sqlite_engine(url: str) -> Engine:
    engine = create_engine(url, pool_size=8, max_overflow=0, connect_args={"timeout": 30, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _configure(raw: Any, _record: Any) -> None:
        raw.isolation_level = None  # we issue BEGIN ourselves: see below
        raw.execute("PRAGMA journal_mode=WAL")
        # FULL: a commit is on disk before it is acknowledged, so it survives a power cut.
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA cache_size=-4096")
        raw.execute("PRAGMA temp_store=MEMORY")  # a full disk must not stop work that needs no more of it

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # Readers are never blocked by writers in WAL; a plain BEGIN gives them a snapshot.
        connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE")

    return engine


def _postgres_engine(url: str) -> Engine:
    return postgres.engine(url, pool_size=_WRITERS + _READERS + 1, max_overflow=0, pool_timeout=ANSWER_S)


def _bring_up_to_date(engine: Engine) -> None:
    with engine.begin() as connection:
        _migrate(connection)


def _migrate(connection: Connection) -> None:
    """Alembic's upgrade to the newest schema, in the caller's transaction. Two servers that start at once take turns."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(727100)"))
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
