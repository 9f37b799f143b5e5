"""Which servers serve a database, and what each of them may claim exclusively.

On SQLite there is one, which holds a lock on a file beside the database (not on the database: closing another descriptor of it
would drop SQLite's own locks). It is always alone and holds every lease. On PostgreSQL there may be several
(`postgresmembers.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import make_url

from brickyard.store.servers import About, Server, in_use
from brickyard.store.store import StoreError


class Membership(Protocol):
    """Created by `take`. Then bring the database up to date, `join`, and `close` at the end."""

    @property
    def number(self) -> int:
        """This server's number after `join`; 0 if there is only one."""
        ...

    @property
    def alone(self) -> bool:
        """Whether no other server changes the database, so that reads may be cached until this one changes it. For any thread."""
        ...

    @property
    def trouble(self) -> str:
        """Why this server is currently not one of the workspace's servers; "" if it is."""
        ...

    def join(self) -> None:
        """Becomes one of the servers. Returns once no other server caches data that this one may change. Blocks. Raises
        JoinRefused or StoreError."""
        ...

    def lease(self, name: str) -> Callable[[], bool]:
        """Competes for a job of one server at a time. The result tells whether this server has it; cheap, call it each time."""
        ...

    def resign(self) -> None:
        """Leaves all such jobs to the other servers from now on."""
        ...

    def servers(self) -> tuple[Server, ...]:
        """All living servers, including this one, as of the last check."""
        ...

    def count_agents(self, agents: Callable[[], int]) -> None:
        """Tells the other servers how many agents call this one. `agents` is called on a thread of the membership."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls `listener`, on a thread of the membership, when anything of the above has changed."""
        ...

    def close(self) -> None:
        """Leaves the servers."""
        ...


def take(url: str, about: About) -> Membership:
    """The first step, before anything is written. Raises JoinRefused if this server may not join those that serve the database,
    and StoreError if the database cannot be reached."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        from brickyard.store.postgresmembers import PostgresMembership  # noqa: PLC0415 - its driver, only where it is used

        return PostgresMembership(url, about)
    return OneServer(about, Path(parsed.database).absolute() if parsed.database else None)


class OneServer:
    """The only server of an SQLite database, while it holds the lock. Without a path the database is in memory."""

    number = 0
    alone = True
    trouble = ""

    def __init__(self, about: About, database: Path | None) -> None:
        self._me = Server(number=0, about=about, started_ms=time.time_ns() // 1_000_000, alone=True, session=about.pid)
        self._lock = None if database is None else _locked(database, self._me.name)

    def join(self) -> None:
        """Nothing to do."""

    def lease(self, name: str) -> Callable[[], bool]:
        return lambda: True

    def resign(self) -> None:
        """There is no other server."""

    def servers(self) -> tuple[Server, ...]:
        return (self._me,)

    def count_agents(self, agents: Callable[[], int]) -> None:
        """Does nothing: there are no other servers."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes."""

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(database: Path, name: str) -> int:
    path = database.with_name(f"{database.name}.lock")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"cannot open the database {database}: {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(lock, 200).decode(errors="replace")
        os.close(lock)
        raise in_use(str(database), holder) from error
    with contextlib.suppress(OSError):  # a full disk: the lock counts, not the note of who holds it
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"brickyard {name}".encode(), 0)
    return lock
