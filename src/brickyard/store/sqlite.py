"""Connections to SQLite, in WAL mode and with commits that survive a power cut."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url

# How long to wait for another program that has locked the database (a copy that an administrator makes): a request waits for two
# such turns at most, and must be answered within 5 s.
LOCKED_S = 2.0


def is_new(url: str) -> bool:
    """Whether the URL is that of an SQLite database whose file does not exist or is empty."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return False
    try:
        return os.stat(parsed.database).st_size == 0  # noqa: PTH116 - as good
    except OSError:
        return True


class DatabaseFile:
    """The file that is open, as opposed to what its path leads to: connections go on with a file that has been removed, and what
    they commit is lost with the last of them. For any thread."""

    def __init__(self, path: str) -> None:
        self.path = Path(os.path.realpath(path))  # SQLite, too, keeps its log beside what a link leads to
        self._log = f"{self.path}-wal"
        self._identity: tuple[int, int] | None = None
        self.alone = False  # the connections exclude other programs

    def opened(self) -> None:
        """Notes which file is open."""
        self._identity = self._identity or self._found()

    def check(self, *, log: bool = True) -> None:
        """Raises sqlite3.OperationalError if the path does not lead to the open file, or if SQLite's log is missing, which every
        transaction has open."""
        if self._identity is None:
            return
        if self._found() != self._identity:
            raise _lost(f"its file {self.path} was removed or replaced while this server has it open")
        if log and not os.path.exists(self._log):  # noqa: PTH110 - for each commit: half as long
            raise _lost(f"its file {self._log} was removed while this server has it open")

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - as above
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _lost(reason: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN  # how `store.trouble` knows what it is
    return error


def engine(url: str, file: DatabaseFile | None = None, *, in_memory_index: bool = False) -> Engine:
    """An engine for one writer and several readers. With `file`, later connections open the same one as the first.

    `in_memory_index`: without the file beside the database through which processes share the log's index. SQLite makes that file
    anew at each start, and on a full disk it may not get the room, nor keep it from whoever fills the disk. Then no other program
    can read the database meanwhile.
    """
    path = make_url(url).database
    made = create_engine(url, pool_size=8, max_overflow=0, connect_args={"timeout": LOCKED_S, "check_same_thread": False})

    @event.listens_for(made, "do_connect")
    def _connect(_dialect: Any, _record: Any, _arguments: Any, given: dict[str, Any]) -> sqlite3.Connection | None:
        if file is not None:
            file.check(log=False)  # SQLite would make a new, empty one
        if in_memory_index and path:
            if file is not None:
                file.alone = True
            opened: sqlite3.Connection = sqlite3.connect(f"file:{quote(path)}?vfs=unix-excl", uri=True, **given)
            return opened
        return None  # as usual

    @event.listens_for(made, "connect")
    def _configure(raw: Any, _record: Any) -> None:
        if file is not None:
            file.opened()
        raw.isolation_level = None  # we issue BEGIN ourselves: see below
        raw.execute("PRAGMA journal_mode=WAL")
        # FULL: a commit is on disk before it is acknowledged, so it survives a power cut.
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA cache_size=-4096")
        raw.execute("PRAGMA temp_store=MEMORY")  # a full disk must not stop work that needs no more of it

    @event.listens_for(made, "begin")
    def _begin(connection: Connection) -> None:
        # Readers are never blocked by writers in WAL; a plain BEGIN gives them a snapshot.
        connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE")

    return made
