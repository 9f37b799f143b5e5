"""One server serves a database: the lock that says so, held for as long as the server lives.

On PostgreSQL it is an advisory lock of a connection of its own: it ends with the process, however that ends, and a restart of the
database ends it as well; then `held` takes it again, or finds that another server has it. On SQLite it is a lock on a file beside
the database (not on the database: closing another descriptor of that would end SQLite's own locks).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from brickyard.store import postgres
from brickyard.store.store import StoreError

PATIENCE_S = 3.0  # a killed server's connection is gone at once, but not in no time
_NAME_BYTES = 63  # PostgreSQL cuts an application's name there
# The database notices within half a minute that a server's machine has gone, and lets go of its lock.
_KEEPALIVE = "SELECT " + ", ".join(
    f"set_config('tcp_keepalives_{name}', '{value}', false)" for name, value in (("idle", 10), ("interval", 5), ("count", 3))
)
_KEY = "hashtextextended('brickyard server ' || coalesce(current_schema(), ''), 0)"
_HOLDER = f"""
SELECT activity.application_name FROM pg_locks JOIN pg_stat_activity activity USING (pid)
WHERE pg_locks.locktype = 'advisory' AND pg_locks.granted AND pg_locks.objsubid = 1
  AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (pg_locks.classid::bigint << 32 | pg_locks.objid::bigint) = {_KEY}
"""  # noqa: S608 - constants


class DatabaseInUse(Exception):
    """Another server has the database; the message is one line for an administrator."""


class ServerLock(Protocol):
    """Methods block; they are to be called from one thread at a time."""

    def held(self) -> bool:
        """Whether no other server can have the database: the lock is ours, or was taken again just now. Raises DBAPIError while
        the database cannot be asked."""
        ...

    def close(self) -> None:
        """Let the next server have it."""
        ...


def take(url: str) -> ServerLock:
    """Raises DatabaseInUse when another server has the database, StoreError when it cannot be reached."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return _PostgresLock(url)
    return _FileLock(Path(parsed.database).absolute()) if parsed.database else _NoLock()


class _NoLock:
    """A database in memory is nobody else's."""

    def held(self) -> bool:
        return True

    def close(self) -> None:
        pass


class _FileLock:
    def __init__(self, database: Path) -> None:
        path = database.with_name(f"{database.name}.lock")
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot open the database {database}: {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._fd, 200).decode(errors="replace")
            os.close(self._fd)
            raise _in_use(str(database), holder) from error
        with contextlib.suppress(OSError):  # a full disk: the lock counts, not who says that it has it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, _myself().encode(), 0)

    def held(self) -> bool:
        return True

    def close(self) -> None:
        os.close(self._fd)


class _PostgresLock:
    def __init__(self, url: str) -> None:
        self._shown = postgres.driver_url(url).render_as_string(hide_password=True)
        self._engine: Engine = postgres.engine(
            url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect={"application_name": _myself()}
        )
        self._connection: Connection | None = None
        try:
            self._wait()
        except DBAPIError as error:
            self.close()
            reason = str(error.orig).strip().splitlines()[0]
            raise StoreError(f"cannot open the database {self._shown}: {reason}") from error
        except BaseException:
            self.close()
            raise

    def held(self) -> bool:
        if self._connection is not None:
            try:
                self._connection.execute(text("SELECT 1"))
                return True
            except DBAPIError:  # the database was restarted, or has ended our session: the lock ended with it
                self._drop()
        return self._taken()

    def close(self) -> None:
        self._drop()
        self._engine.dispose()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._taken():
            if time.monotonic() > deadline:
                raise _in_use(self._shown, self._holder())
            time.sleep(0.05)

    def _taken(self) -> bool:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._connection.execute(text(_KEEPALIVE))
        return bool(self._connection.execute(text(f"SELECT pg_try_advisory_lock({_KEY})")).scalar())

    def _holder(self) -> str:
        assert self._connection is not None  # noqa: S101 - `_taken` has made it
        return str(self._connection.execute(text(_HOLDER)).scalar() or "")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.invalidate()
                connection.close()


def _myself() -> str:
    return f"brickyard process {os.getpid()} on {socket.gethostname()}".encode()[:_NAME_BYTES].decode(errors="ignore")


def _in_use(database: str, holder: str) -> DatabaseInUse:
    who = holder.removeprefix("brickyard ") or "another process"
    return DatabaseInUse(
        f"another Brickyard server ({who}) is using the database {database}, and a database has one server at a time. Stop that "
        "one first, or give this one a database of its own."
    )
