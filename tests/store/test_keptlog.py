"""A database that is closed keeps its log, with its room and without content."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from brickyard.store import opening as module
from brickyard.store import sqlite
from brickyard.store.reserve import RESERVE_BYTES
from brickyard.store.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no locks of open files")


def keys(store: Store) -> list[str | None]:
    return [store.read_sync(lambda tx, key=key: tx.get_meta(key)) for key in "abc"]  # type: ignore[misc] # a default


def write(store: Store, key: str) -> None:
    store.write_sync(lambda tx: tx.set_meta(key, "written"))


def closed(file: Path, key: str) -> Path:
    """The log, after a store has written and was closed."""
    store = Store.open(f"sqlite:///{file}")
    asyncio.run(store.keep_reserve())
    write(store, key)
    store.close()
    return file.with_name(f"{file.name}-wal")


def test_a_log_keeps_its_room_and_its_inode_when_the_database_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    log = closed(file, "a")
    found = log.stat()
    assert found.st_size > RESERVE_BYTES
    assert closed(file, "b") == log
    assert (log.stat().st_ino, log.stat().st_size) == (found.st_ino, found.st_size), "nobody could have taken either"
    store = Store.open(f"sqlite:///{file}")
    assert keys(store) == ["written", "written", None]
    store.close()


def test_the_database_is_whole_without_its_log_and_a_restored_one_is_not_changed_by_it(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    closed(file, "a")
    backup = tmp_path / "backup"
    shutil.copy(file, backup)
    closed(file, "b")
    shutil.copy(backup, file)  # and the log of the other one is there
    store = Store.open(f"sqlite:///{file}")
    assert keys(store) == ["written", None, None]
    write(store, "c")
    store.close()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_another_program_has_open_is_left_to_it(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    store = Store.open(f"sqlite:///{file}")
    write(store, "a")
    code = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("SELECT * FROM meta").fetchall()
print(1, flush=True)
sys.stdin.readline()
database.execute("INSERT INTO meta VALUES ('b', 'written')")
database.commit()
print(2, flush=True)
os._exit(0)
"""
    other = subprocess.Popen([sys.executable, "-c", code, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin is not None and other.stdout is not None
    other.stdout.readline()
    store.close()
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.stdout.readline() == "2\n"
    other.wait()
    again = Store.open(f"sqlite:///{file}")
    assert keys(again) == ["written", "written", None]
    again.close()
    other.stdin.close()
    other.stdout.close()


def test_a_log_stays_where_no_other_program_can_read_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a start on a full disk."""
    file = tmp_path / "a.db"
    log = closed(file, "a")
    inode = log.stat().st_ino
    monkeypatch.setattr(module, "sqlite_engine", lambda url, opened: sqlite.engine(url, opened, in_memory_index=True))
    closed(file, "b")
    assert log.stat().st_ino == inode and log.stat().st_size > RESERVE_BYTES
    assert not list(tmp_path.glob("*.kept"))
    monkeypatch.undo()
    store = Store.open(f"sqlite:///{file}")
    assert keys(store) == ["written", "written", None]
    store.close()
