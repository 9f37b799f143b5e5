"""Which servers serve a database, and what each of them may claim exclusively.

On SQLite there is one, which holds a lock on the file. It is always alone and holds every lease. On PostgreSQL there may be
several (`postgresmembers.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import make_url

from brickyard.domain.node import ServerAddress
from brickyard.machine import locks
from brickyard.store.opening import StoreError, cannot_open
from brickyard.store.servers import About, Server, in_use
from brickyard.store.sharing import Sharing


class Members(Sharing, Protocol):
    """The servers of a workspace, as one of them sees them."""

    @property
    def number(self) -> int:
        """This server's number after `join`; 0 if there is only one."""
        ...

    def servers(self) -> tuple[Server, ...]:
        """All living servers, including this one, as of the last check."""
        ...


class _Alone:
    """The members where there is one server, which nobody calls."""

    number = 0
    alone = True

    def servers(self) -> tuple[Server, ...]:
        return ()


ALONE: Members = _Alone()


def addresses(members: Members) -> tuple[ServerAddress, ...]:
    """The servers that are not stopping."""
    return tuple(each.about.address for each in members.servers() if not each.stopping)


def living(members: Members) -> frozenset[int]:
    """The numbers of all living servers."""
    return frozenset(each.number for each in members.servers())


class Membership(Members, Protocol):
    """Created by `take`. Then bring the database up to date, `join`, and `close` at the end."""

    @property
    def trouble(self) -> str:
        """Why this server is currently not one of the workspace's servers; "" if it is."""
        ...

    def join(self) -> None:
        """Becomes one of the servers. Returns once no other server caches data that this one may change. Blocks. Raises
        JoinRefused or StoreError."""
        ...

    def now_ns(self) -> int:
        """What time it is for all servers: epoch ns by the database's clock, whatever those of their machines show. For any
        thread."""
        ...

    def lease(self, name: str) -> Callable[[], bool]:
        """Competes for a job of one server at a time. The result tells whether this server has it; cheap, call it each time."""
        ...

    def resign(self) -> None:
        """Leaves all such jobs to the other servers from now on."""
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


_here: set[tuple[int, int]] = set()  # the files that servers of this process have open: device, inode


class OneServer:
    """The only server of an SQLite database, while it holds the lock. Without a path the database is in memory."""

    number = 0
    alone = True
    trouble = ""

    def __init__(self, about: About, database: Path | None) -> None:
        self._me = Server(number=0, about=about, started_ms=time.time_ns() // 1_000_000, alone=True, session=about.pid)
        self._lock = None if database is None else _Lock(database, self._me.name)

    def join(self) -> None:
        """Nothing to do."""

    def now_ns(self) -> int:
        return time.time_ns()

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
            self._lock.close()
            self._lock = None


class _Lock:
    """Locks on an SQLite database: on the file itself (flock, which has nothing to do with SQLite's own locks), so that no other
    path leads to it, and on a file beside it that says who has it.

    To close any descriptor of the file drops SQLite's own locks (fcntl) of this process. So the store is closed first, and a file
    that this process has is not opened again.
    """

    def __init__(self, database: Path, name: str) -> None:
        path = Path(os.path.realpath(database))  # as SQLite, which keeps its log beside what a link leads to
        self._identity = (0, 0)
        with contextlib.ExitStack() as opened:
            note = _open(database, path.with_name(f"{path.name}.lock"))
            opened.callback(os.close, note)
            if not locks.take(note) or _identity(path) in _here:
                raise in_use(str(database), os.pread(note, 200, 0).decode(errors="replace"))
            file = _open(database, path)
            opened.callback(os.close, file)
            if not locks.take(file):
                raise in_use(str(database), "")  # by another name of the file: who that is, is noted beside that one
            found = os.fstat(file)
            if found.st_nlink > 1:
                raise StoreError(
                    f"the database {path} has {found.st_nlink} names (hard links), and SQLite keeps its log beside one of them: "
                    "under another name, what is in the log would be lost. Remove the other names."
                )
            with contextlib.suppress(OSError):  # a full disk: the lock counts, not the note of who holds it
                os.ftruncate(note, 0)
                os.pwrite(note, f"brickyard {name}".encode(), 0)
            self._identity = (found.st_dev, found.st_ino)
            _here.add(self._identity)
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()
        _here.discard(self._identity)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(database: Path, path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_open(f"sqlite:///{database}", OSError(f"{path}: {error.strerror}")) from error
