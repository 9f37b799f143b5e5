"""Keeps SQLite's log when the database is closed, because the next start may find the disk full.

The last connection that closes would remove the log, and with it the room and the inode that `reserve.py` has taken: whoever
fills the disk would have them before the next start. A log that has been written to the database in full is kept with a blank
header: it holds nothing then, not even beside a database that is restored from a backup.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_HEADER = 32  # bytes
_SHARED = 0x40000002, 510  # where SQLite locks a database that is in use: offset, length
_SET = getattr(fcntl, "F_OFD_SETLK", None)  # Linux


@contextlib.contextmanager
def kept(database: Path, *, complete: bool, alone: bool) -> Iterator[None]:
    """Close this process's connections within. `complete`: all that the log holds is in the database. `alone`: the connections
    exclude other programs. Raises nothing of its own: at worst the log is gone, as SQLite would have it."""
    log = Path(f"{database}-wal")
    with contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):
            if not alone:
                after.enter_context(_in_use(database, log, complete=complete))
            elif complete:
                after.enter_context(_aside(log))
        yield


@contextlib.contextmanager
def _in_use(database: Path, log: Path, *, complete: bool) -> Iterator[None]:
    """Locks the database as another program would that has it open, so that SQLite leaves the log to that. A lock of an open file
    (not of a process) excludes this process's own connections, too."""
    file = os.open(database, os.O_RDWR | os.O_CLOEXEC)
    try:
        used = _lock(file, fcntl.F_RDLCK)
        yield
        if used and complete and _lock(file, fcntl.F_WRLCK):  # nobody has it open
            _blank(log)
    finally:
        os.close(file)


@contextlib.contextmanager
def _aside(log: Path) -> Iterator[None]:
    """Has the log elsewhere. If this process is killed meanwhile, the next start makes another."""
    aside = log.rename(log.with_name(f"{log.name}.kept"))
    yield
    _blank(aside)
    with contextlib.suppress(OSError):
        aside.rename(log)


def _blank(log: Path) -> None:
    with contextlib.suppress(OSError), log.open("r+b", buffering=0) as file:
        if os.fstat(file.fileno()).st_size:
            file.write(bytes(_HEADER))
            os.fsync(file.fileno())


def _lock(file: int, kind: int) -> bool:
    if _SET is None:
        return False
    try:
        fcntl.fcntl(file, _SET, struct.pack("hhqqi0q", kind, os.SEEK_SET, *_SHARED, 0))
    except OSError:
        return False
    return True
