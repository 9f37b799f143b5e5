"""Connections to SQLite, in WAL mode and with commits that survive a power cut."""

from __future__ import annotations

import sqlite3
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url

# How long to wait for another program that has locked the database (a copy that an administrator makes): a request waits for two
# such turns at most, and must be answered within 5 s.
LOCKED_S = 2.0


def engine(url: str, *, in_memory_index: bool = False) -> Engine:
    """An engine for one writer and several readers. `in_memory_index`: without the file beside the database through which
    processes share the log's index. SQLite makes that file anew at each start, and on a full disk it may not get the room, nor
    keep it from whoever fills the disk. Then no other program can read the database meanwhile."""
    path = make_url(url).database
    given: dict[str, Any] = {"connect_args": {"timeout": LOCKED_S, "check_same_thread": False}}
    if in_memory_index and path:
        file = f"file:{quote(path)}?vfs=unix-excl"
        given = {"creator": lambda: sqlite3.connect(file, uri=True, timeout=LOCKED_S, check_same_thread=False)}
    made = create_engine(url, pool_size=8, max_overflow=0, **given)

    @event.listens_for(made, "connect")
    def _configure(raw: Any, _record: Any) -> None:
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
