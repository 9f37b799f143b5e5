"""Locks on files (flock). A lock ends with the descriptor that took it, so also with its process."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

LOOK_S = 0.01  # between two attempts


def take(fd: int, *, shared: bool = False, patience_s: float = 0.0) -> bool:
    """Whether the lock was taken within that time. One attempt is made in any case. Raises OSError."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_S)


def is_taken(path: Path) -> bool:
    """Whether another descriptor holds the file's lock for itself. The check takes the lock for a moment. A missing file has
    none. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not take(fd, shared=True)
    finally:
        os.close(fd)
