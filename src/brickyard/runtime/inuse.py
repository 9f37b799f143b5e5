"""Tracks use of the runtimes in a cache directory: users share a lock, and removal needs the exclusive lock.

The kernel frees the lock of a process that dies, so a use never outlives its user, even across workspaces.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from brickyard.machine import locks


class RuntimeInUse(Exception):
    """The runtime is in use."""


class RuntimeUse:
    """Holds at most one runtime in use at a time."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._fd = -1

    def begin(self, environment: str) -> None:
        """Marks this runtime as in use, whether or not it is installed yet. Waits for a removal in progress."""
        self.end()
        try:
            self._fd = _open(self._cache_dir, environment)
        except OSError:
            return  # a user who may not write there cannot remove it either
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def end(self) -> None:
        """Ends the use."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def unused(cache_dir: Path, environment: str) -> Iterator[None]:
    """Keeps others from using the runtime until the block ends. Raises RuntimeInUse."""
    fd = _open(cache_dir, environment)
    try:
        if not locks.take(fd):
            raise RuntimeInUse
        yield
    finally:
        os.close(fd)


def _open(cache_dir: Path, environment: str) -> int:
    place = cache_dir / "locks"
    place.mkdir(parents=True, exist_ok=True)
    return os.open(place / f"{environment}.use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
