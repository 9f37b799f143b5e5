"""The numbers that the agents of a data directory publish for each other, and the turn to act on them.

A file of fixed size per instance, written over in place: that works while the disk is full, and costs one write a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brickyard.agent.pressure import Usage

_BYTES = 512
_NAME = "usage.json"


class Published:
    """Our own file. Made while there is room; without any, we publish nothing and are judged by nobody but ourselves."""

    def __init__(self, directory: Path) -> None:
        self._fd = -1
        with contextlib.suppress(OSError):
            fd = os.open(directory / _NAME, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._fd = fd
            os.pwrite(fd, b" " * _BYTES, 0)

    def write(self, usage: Usage) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, msgspec.json.encode(usage).ljust(_BYTES), 0)


def published(instances: Path) -> list[Usage]:
    """What all agents said last. What cannot be read is left out."""
    found = []
    for name in _names(instances):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode((instances / name / _NAME).read_bytes(), type=Usage))
    return found


def _names(instances: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(instances) if not name.startswith("."))  # noqa: PTH208 - names are all we need
    except OSError:
        return []


@contextlib.contextmanager
def turn(lock: Path) -> Iterator[bool]:
    """Act alone: False when another agent is acting, and its relief is to be waited for. A killed holder loses its turn."""
    try:
        fd = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # no room for the file itself, and the offender must go all the same
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)
