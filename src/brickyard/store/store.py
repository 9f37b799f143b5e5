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
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.pool import NullPool

from brickyard.domain.errors import ApiError, DatabaseAway, DatabaseFull, DatabaseTrouble, DatabaseUnsure, RequestLimitExceeded
from brickyard.store import keptlog, reserve
from brickyard.store.changeset import Changes
from brickyard.store.patience import is_patient, patiently
from brickyard.store.prepared import direct
from brickyard.store.schema import StrangeSchema, bring_up_to_date
from brickyard.store.sqlite import DatabaseFile
from brickyard.store.sqlite import engine as sqlite_engine
from brickyard.store.trouble import Health, trouble_of
from brickyard.store.tx import Tx
from brickyard.store.units import Outcome, Ticket, Unit
from brickyard.store.writer import Writer

if TYPE_CHECKING:
    from brickyard.store.changes import ChangeFeed

log = structlog.get_logger(__name__)

T = TypeVar("T")
Commit = Callable[[Callable[[Tx], T]], Awaitable[T]]
Listener = Callable[[Changes], None]

ASK_AGAIN_S = (0.25, 5.0)  # shortest and longest interval for asking a database that cannot be used
ANSWER_S = 3.0  # a database that takes longer for a trivial statement cannot be used
WAIT_S = 4.0  # a request's unit that has not begun by then is given up: it had no effect, so the client may retry
HUNG_S = 3.0  # a database busy with one thing for this long does not answer; if less, work has piled up
CLOSE_S = 12.0  # longer than a connection to PostgreSQL waits for an answer
_READERS, _WRITERS = 4, 8  # threads; SQLite has one writer
PROBE = "probe"
_PROBE_BYTES = 256 * 1024  # more than the free part of SQLite's write-ahead log, so that a full disk shows


class Companion(Protocol):
    """What a call of the API adds to its first commit, so that both happen or neither does."""

    def wanted(self) -> bool:
        """Whether it is still to be added."""
        ...

    async def write(self, work: Callable[[Tx], T], commit: Commit[T]) -> T:
        """Commits the work with what is added to it."""
        ...


_companion: ContextVar[Companion | None] = ContextVar("companion", default=None)


@contextlib.contextmanager
def beside(companion: Companion | None) -> Iterator[None]:
    """What the block commits first takes the companion along."""
    token = _companion.set(companion)
    try:
        yield
    finally:
        _companion.reset(token)


class StoreError(Exception):
    """The database cannot be used. The message is one line for an administrator: why, and what to do."""


def shown_url(url: str) -> str:
    """A database's name in messages: SQLite's file, or the URL without the password."""
    parsed = make_url(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    return (parsed.database or "in memory") if sqlite else parsed.render_as_string(hide_password=True)


def cannot_open(url: str, error: Exception) -> StoreError:
    """The error for a database that does not open."""
    reason = (str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__])[0]
    remote = make_url(url).get_backend_name() != "sqlite"
    remedy = "Check that PostgreSQL runs there, and database_url." if remote else "Check the path and the disk, or database_url."
    return StoreError(f"cannot open the database {shown_url(url)}: {reason}. {remedy}")


class Store:
    """Open with `Store.open(url)`; `close()` when done. Call methods from one event loop only.

    Every method that reads or writes raises DatabaseTrouble if the database is unavailable or its disk is full.
    """

    def __init__(
        self,
        *,
        url: str,
        engine: Engine,
        reading: Engine,
        alone: Callable[[], bool],
        readers: int,
        writers: int,
        file: DatabaseFile | None,
    ) -> None:
        self.url = url
        self._file = file  # of SQLite
        self._engine = engine
        self._reading_engine = reading
        self._alone = alone
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="store-read")
        self._reading: dict[int, float] = {}  # thread -> when its current read began
        self._listeners: list[Listener] = []
        self._gap_listeners: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._feed = self._open_feed(url) if engine.dialect.name == "postgresql" else None
        self._writer = Writer(engine=engine, threads=writers, deliver=self._deliver, commit=self._commit)
        self._health = Health()
        self._asking = asyncio.Lock()

    @classmethod
    def open(cls, url: str, *, alone: Callable[[], bool] | None = None, creates: Callable[[], None] = lambda: None) -> Store:
        """Connects and brings the schema up to date. Calls `creates` before it makes one in an empty database. Raises StoreError,
        and what `creates` raises.

        `alone` tells whether no other process currently writes to this database (`Membership.alone`). By default that is always
        true for SQLite and never for PostgreSQL.
        """
        parsed = make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
        file = DatabaseFile(parsed.database) if sqlite and parsed.database else None
        try:
            engine = _open_sqlite(url, file, creates) if sqlite else _postgres_engine(url, _WRITERS)
            # On PostgreSQL a transaction that only reads would see no more than its statements do, and cost two exchanges more.
            reading = engine if sqlite else _postgres_engine(url, _READERS + 1, isolation_level="AUTOCOMMIT")
            if not sqlite:
                bring_up_to_date(_unbounded(url), creates)
        except (DBAPIError, sqlite3.Error) as error:
            raise cannot_open(url, error) from error
        except StrangeSchema as error:
            raise StoreError(f"the database {shown_url(url)} {error}") from error
        # One writer: SQLite has one write lock, and queueing here is fairer and faster than its busy handler.
        return cls(
            url=url,
            engine=engine,
            reading=reading,
            alone=alone or (lambda: sqlite),
            readers=_READERS,
            writers=1 if sqlite else _WRITERS,
            file=file,
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

    def changed(self, changes: Changes) -> None:
        """Another server's commit has changed this. For any thread."""
        self._post(functools.partial(self._tell, changes))

    def gap(self) -> None:
        """Tells everyone who caches something or waits for something that a commit may have been missed. For any thread."""
        self._post(self._tell_gap)

    @property
    def told(self) -> bool:
        """Whether listeners hear of every server's commits, sooner or later. If not, poll."""
        return self.alone or (self._feed is not None and self._feed.listening)

    async def read(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        """Runs `work` on a snapshot (PostgreSQL: each statement on its own). It must not write. Unless `background` (nobody waits
        for it), raises RequestLimitExceeded or DatabaseAway if it has not begun after WAIT_S."""
        if not background and is_patient():
            return await patiently(lambda: self._read_soon(work, background=False))
        return await self._read_soon(work, background=background)

    async def _read_soon(self, work: Callable[[Tx], T], *, background: bool) -> T:
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

    async def write(self, work: Callable[[Tx], T], *, background: bool = False, inserts: bool = False) -> T:
        """Runs `work` in a transaction and commits it. An exception rolls back everything. `work` may run again after a conflict
        with another writer, so it must have no effect except on its `Tx`. Cancelling the caller does not stop it.

        `background`: nobody waits for it, so requests go first. Requests that have not begun after WAIT_S are given up: raises
        RequestLimitExceeded or DatabaseAway. `inserts`: it locks nothing, so that it may share a transaction (`store.batch`).
        """
        if not background and (companion := _companion.get()) is not None and companion.wanted():
            return await companion.write(work, functools.partial(self._write, background=False, inserts=inserts))
        return await self._write(work, background=background, inserts=inserts)

    async def before_effect(self) -> None:
        """Commits the audit entry of the call under way, unless that was done. Call it before each effect outside the database:
        if it raises, nothing has been done, and the client may repeat the call; afterwards it may not."""
        if (companion := _companion.get()) is not None and companion.wanted():
            await companion.write(_no_change, self._commit_entry)

    async def _commit_entry(self, work: Callable[[Tx], T]) -> T:
        try:
            return await self._write(work, background=False, inserts=True)
        except DatabaseUnsure as error:  # at worst the repeated call has two entries
            raise DatabaseAway(error.reason) from error

    async def _write(self, work: Callable[[Tx], T], *, background: bool, inserts: bool) -> T:
        if not background and is_patient():
            return await patiently(lambda: self._write_soon(work, background=False, inserts=inserts))
        return await self._write_soon(work, background=background, inserts=inserts)

    async def _write_soon(self, work: Callable[[Tx], T], *, background: bool, inserts: bool) -> T:
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        ticket = self._writer.put(Unit(work, functools.partial(_settle, future), loop, inserts), background=background)
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
        """Checks whether the database can be used; returns the trouble if not. After a recent failure, checks with a write.

        Never raises: every loop waits for it, and an error of a kind that nobody has thought of must not end them.
        """
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
        if self._feed is not None:
            self._feed.close()
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

    def _open_feed(self, url: str) -> ChangeFeed:
        from brickyard.store import postgres  # noqa: PLC0415 - as in `_postgres_engine`
        from brickyard.store.changes import ChangeFeed  # noqa: PLC0415 - as in `_postgres_engine`

        return ChangeFeed(
            connect=lambda: postgres.connect(url),
            listener=self,
        )

    def _read_probe(self, tx: Tx) -> None:
        tx.get_meta(PROBE)
        if self._file is not None:
            self._file.check()

    def _commit(self, connection: Connection, changed: Changes) -> None:
        """Commits on PostgreSQL and announces the changes to the other servers, unless there are none. On SQLite, checks that
        what is committed next will be found again.

        If this server has lost its membership, another one may be alone meanwhile and cache its reads: then nothing of this
        server may be committed. Raises Excluded, and sqlite3.OperationalError.
        """
        if self._file is not None:
            self._file.check()
        elif self._feed is not None and not self._alone():
            self._feed.commit(connection, changed)

    def _tell(self, changed: Changes) -> None:
        for listener in self._listeners:
            _call(listener, changed)

    def _tell_gap(self) -> None:
        for listener in self._gap_listeners:
            _call(listener)

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
            msgspec.structs.replace(each, error=self._health.translated(each.error, unsure=each.unsure)) if each.error else each
            for each in outcomes
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


def _call(listener: Callable[..., None], *arguments: Changes) -> None:
    """Calls a listener. One that fails keeps neither the others nor whoever waits for the commit from hearing of it."""
    try:
        listener(*arguments)
    except Exception:
        log.exception("listener_failed")


def _no_change(tx: Tx) -> None:
    """The work of a call whose effect is elsewhere."""


def _write_probe(tx: Tx) -> None:
    tx.lock(PROBE)  # a loop and a health call may check at the same time
    tx.set_meta(PROBE, "x" * _PROBE_BYTES)


def _settle(future: asyncio.Future[T] | Future[T], outcome: Outcome) -> None:
    if future.done():
        return
    if outcome.error is not None:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.result)


def _open_sqlite(url: str, file: DatabaseFile | None, creates: Callable[[], None]) -> Engine:
    """An engine for a database that is up to date then. Raises DBAPIError, StrangeSchema, and what `creates` raises."""
    engine = sqlite_engine(url, file)
    try:
        bring_up_to_date(engine, creates)
    except BaseException as error:
        engine.dispose()
        if not isinstance(trouble_of(error), DatabaseFull):
            raise
        engine = sqlite_engine(url, file, in_memory_index=True)
        bring_up_to_date(engine, creates)
        log.warning("database_not_shared", why="its disk is full, so no other program can read it until the next start")
    return engine


def _postgres_engine(url: str, connections: int, **options: Any) -> Engine:
    from brickyard.store import postgres  # noqa: PLC0415 - its driver, only where there is PostgreSQL

    return postgres.engine(url, pool_size=connections, max_overflow=0, pool_timeout=ANSWER_S, **options)


def _unbounded(url: str) -> Engine:
    """For migrations, which may take long."""
    from brickyard.store import postgres  # noqa: PLC0415 - as above

    return postgres.engine(url, bounded=False, poolclass=NullPool)
