"""Disk space reserved by the database, because a workspace must be able to write while the disk is full.

A cluster that has filled the disk can only be ended by writing to the database. So SQLite's files are made larger than needed
while there is room: the database holds free pages, and its write-ahead log (WAL) has grown once and is then overwritten again and
again. Nobody else can take that room. A reserve file that is deleted on a full disk would not work: whoever fills the disk would
be faster. (A file system that never writes in place, such as btrfs, does not guarantee this.)
"""

from __future__ import annotations

import os
from pathlib import Path

from brickyard.store.tx import Tx

RESERVE_BYTES = 8 << 20  # thousands of commits, and four times what the log takes before it starts over


def missing(tx: Tx, database: Path) -> bool:
    """Whether the reserve was never made, or more than half of it is used up."""
    free = tx.pragma("freelist_count") * tx.pragma("page_size")
    return free < RESERVE_BYTES // 2 or _size(Path(f"{database}-wal")) < RESERVE_BYTES // 2


def take(tx: Tx) -> None:
    """First half: grows both files. Raises OperationalError, with nothing changed, if the disk has no room for it."""
    tx.execute("DROP TABLE IF EXISTS reserve")
    tx.execute("CREATE TABLE reserve (room BLOB)")
    tx.execute(f"INSERT INTO reserve VALUES (zeroblob({RESERVE_BYTES}))")  # noqa: S608 - a number of our own


def free(tx: Tx) -> None:
    """Second half, in a separate transaction (what the same one frees is never written): frees the pages."""
    tx.execute("DROP TABLE IF EXISTS reserve")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as good
    except OSError:
        return 0
