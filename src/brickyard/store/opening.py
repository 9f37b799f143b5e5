"""Opens a database and brings its schema up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from brickyard.domain.errors import DatabaseFull
from brickyard.store.schema import StrangeSchema, bring_up_to_date
from brickyard.store.sqlite import DatabaseFile
from brickyard.store.sqlite import engine as sqlite_engine
from brickyard.store.trouble import trouble_of

log = structlog.get_logger(__name__)

ANSWER_S = 3.0  # a database that takes longer for a trivial statement cannot be used
_READERS, _WRITERS = 4, 8  # threads; SQLite has one writer


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


class Opened(NamedTuple):
    """An open database: engines for writing and reading, how many threads use each, and the file of SQLite."""

    writing: Engine
    reading: Engine
    writers: int
    readers: int
    file: DatabaseFile | None


def open_database(url: str, creates: Callable[[], None]) -> Opened:
    """Connects and brings the schema up to date. Raises StoreError, and what `creates` raises."""
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
    return Opened(engine, reading, 1 if sqlite else _WRITERS, _READERS, file)


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
