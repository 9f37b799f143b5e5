"""Tells background work on this machine that a node is starting: it yields at once.

A lock in the cache directory, which all of a machine's agents share, whatever their workspace. The kernel frees the lock of a
process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from brickyard.machine import locks


class Starting:
    """Held by an agent while its node starts."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._fd = -1

    def show(self, starting: bool) -> None:
        """Whether the node is starting from now on. Never fails: no start depends on it."""
        if starting == (self._fd >= 0):
            return
        if not starting:
            os.close(self._fd)
            self._fd = -1
            return
        with contextlib.suppress(OSError):
            self._fd = os.open(_path(self._cache_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._fd, fcntl.LOCK_SH)


def anything_starts(cache_dir: Path) -> bool:
    """Whether a node of this machine is starting."""
    try:
        fd = os.open(_path(cache_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return False
    try:
        return not locks.take(fd)
    finally:
        os.close(fd)


def _path(cache_dir: Path) -> Path:
    place = cache_dir / "locks"
    place.mkdir(parents=True, exist_ok=True)
    return place / "starting"
