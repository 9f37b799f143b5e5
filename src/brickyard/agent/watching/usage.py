"""The numbers that the agents of a data directory publish for each other, and the turn to act on them.

Each instance has a file of fixed size that is overwritten in place: this works on a full disk and costs one write a second.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brickyard.machine import locks
from brickyard.machine.pressure import Usage

_decode_usage = msgspec.json.Decoder(Usage).decode


_BYTES = 512
_NAME = "usage.json"


class Published:
    """Our own file, created while there is room. Without room we publish nothing, and only we judge our node."""

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
    """Returns the last numbers of all agents. Skips what cannot be read."""
    found = []
    for name in _names(instances):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(_decode_usage((instances / name / _NAME).read_bytes()))
    return found


def _names(instances: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(instances) if not name.startswith("."))  # noqa: PTH208 - only names are needed
    except OSError:
        return []


@contextlib.contextmanager
def turn(lock: Path) -> Iterator[bool]:
    """Yields whether we may act alone. False means another agent is acting: wait for the effect. A killed holder loses its
    turn."""
    try:
        fd = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # no room for the lock file, but the offender must still be ended
        yield True
        return
    try:
        yield locks.take(fd)
    finally:
        os.close(fd)
