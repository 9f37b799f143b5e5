"""Copies a database, as it is at one moment, to an SQLite file, while servers write to it; and such a file to PostgreSQL.

SQLite's own backup reads the pages of one transaction; from PostgreSQL all rows are read in one REPEATABLE READ transaction. So
a copy has every change that was committed before it began, and nothing of one that was not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from brickyard import __version__
from brickyard.store import schema
from brickyard.store.opening import StoreError, cannot_open, shown_url
from brickyard.store.servers import TURN
from brickyard.store.sqlite import LOCKED_S
from brickyard.store.tablecopy import TableCopy, Tell

TURN_S = 10.0
_PAGES = 4096  # of a step of SQLite's backup, after which it is told how far it is


def copy_database(url: str, target: Path, *, own: Collection[str], tell: Tell, pages: Callable[[int, int], None]) -> None:
    """Copies the database to a new SQLite file, which has the same schema. `own`: the keys in `meta` that are not copied from
    PostgreSQL. `pages` is told how many of SQLite's there are, of how many. Raises StoreError, and OSError if the file cannot be
    written."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        _copy_sqlite(Path(parsed.database or ""), target, pages)
    else:
        _copy_postgres(url, target, own, tell)


def _copy_sqlite(source: Path, target: Path, pages: Callable[[int, int], None]) -> None:
    # Read-only, so that closing it never removes the log of a server that has stopped, which is its reserve (reserve.py).
    address = f"file:{quote(str(source))}?mode=ro"
    try:
        with (
            contextlib.closing(sqlite3.connect(address, uri=True, timeout=LOCKED_S, isolation_level=None)) as reading,
            contextlib.closing(sqlite3.connect(target, isolation_level=None)) as writing,
        ):
            # The backup reads in this transaction: without it, it would begin anew after each commit of a server.
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reading.backup(writing, pages=_PAGES, progress=lambda _, left, total: pages(total - left, total))
            writing.execute("PRAGMA journal_mode=DELETE")  # one file
    except sqlite3.Error as error:
        _raise_if_full(error, target)
        raise cannot_open(f"sqlite:///{source}", error) from error


def _copy_postgres(url: str, target: Path, own: Collection[str], tell: Tell) -> None:
    from brickyard.store import postgres  # noqa: PLC0415 - its driver, only where it is used

    engine = postgres.engine(url, bounded=False, poolclass=NullPool, isolation_level="REPEATABLE READ")
    made = file_engine(target)
    try:
        with engine.connect().execution_options(postgresql_readonly=True) as reading, reading.begin():
            found = schema.revision(reading)
            if found != schema.newest():
                raise _other_schema(url, found)
            with made.begin() as connection:
                schema.migrate(connection)
            with made.connect() as writing:
                copy = TableCopy(reading, writing, own=own, tell=tell)
                with writing.begin():
                    copy.clear()  # what a new database has
                copy.copy()
    except DBAPIError as error:
        _raise_if_full(error.orig, target)
        raise cannot_open(url, error) from error
    finally:
        made.dispose()
        engine.dispose()


def _raise_if_full(error: BaseException | None, target: Path) -> None:
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error


def _other_schema(url: str, found: str | None) -> StoreError:
    return StoreError(
        f"the database {shown_url(url)} has schema {found or 'none'}, and this is Brickyard {__version__} (schema "
        f"{schema.newest()}). Use the version that serves it"
    )


def file_engine(file: Path) -> Engine:
    """An engine for an SQLite file that nobody else uses, and that is worth nothing until it is whole: commits wait for no
    disk."""
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def _configure(raw: sqlite3.Connection, _record: object) -> None:
        raw.isolation_level = None
        raw.execute("PRAGMA synchronous=OFF")
        raw.execute("PRAGMA journal_mode=MEMORY")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


@contextlib.contextmanager
def exclusive_postgres(url: str) -> Iterator[Connection]:
    """A connection to a PostgreSQL database with the newest schema, which keeps servers from joining: if it is lost, so is the
    right to write there. Raises StoreError."""
    from brickyard.store import postgres  # noqa: PLC0415 - as above

    engine = postgres.engine(url, bounded=False, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            _take_turn(connection, url)
            with connection.begin():
                schema.migrate(connection)
            yield connection
    except DBAPIError as error:
        raise cannot_open(url, error) from error
    except schema.StrangeSchema as error:
        raise StoreError(f"the database {shown_url(url)} {error}") from error
    finally:
        engine.dispose()


def _take_turn(connection: Connection, url: str) -> None:
    """Waits a little: PostgreSQL may still hold the lock for a copy that was killed."""
    deadline = time.monotonic() + TURN_S
    while True:
        with connection.begin():
            if connection.scalar(text(f"SELECT pg_try_advisory_lock({TURN})")):  # for the session
                return
        if time.monotonic() > deadline:
            raise StoreError(
                f"a server or another copy is using the database {shown_url(url)}. Stop it, or wait until it has ended."
            )
        time.sleep(0.1)
