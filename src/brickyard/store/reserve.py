"""Room that the database has before it needs it: a workspace must be able to write while the disk is full.

A cluster that has filled the disk can only be ended by writing that it is to end. So SQLite's files are made larger than need be
while there is room: the database holds free pages, and its log of writes (WAL) has grown once and is then written over again and
again. Nobody else can take that room, unlike that of a file that is given up on a full disk: whoever fills it would be faster.
(A file system that never writes in place, such as btrfs, gives no such promise.)
"""

from __future__ import annotations

import os
from pathlib import Path

from brickyard.store.tx import Tx

RESERVE_BYTES = 8 << 20  # thousands of commits, and four times what is written to the log before it begins anew


def missing(tx: Tx, database: Path) -> bool:
    """Whether more than half of the reserve is used up, or was never made."""
    free = tx.pragma("freelist_count") * tx.pragma("page_size")
    return free < RESERVE_BYTES // 2 or _size(Path(f"{database}-wal")) < RESERVE_BYTES // 2


def take(tx: Tx) -> None:
    """First half: grow both files. Raises OperationalError where the disk has no room for it; nothing has changed then."""
    tx.execute("DROP TABLE IF EXISTS reserve")
    tx.execute("CREATE TABLE reserve (room BLOB)")
    tx.execute(f"INSERT INTO reserve VALUES (zeroblob({RESERVE_BYTES}))")  # noqa: S608 - a number of our own


def free(tx: Tx) -> None:
    """Second half, in a transaction of its own (what the same one frees is never written): the pages become free."""
    tx.execute("DROP TABLE IF EXISTS reserve")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as good
    except OSError:
        return 0
