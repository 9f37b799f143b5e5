"""Unix sockets that lead into the networks of clusters (`sandbox/network.py`), by names short enough for a socket address."""

from __future__ import annotations

import functools
import os
from pathlib import Path

LONGEST = 100  # bytes; the kernel's limit is 107


def short(way: str) -> str:
    """The same socket for this process; if the name is too long, via a descriptor of the directory of all sockets."""
    if len(os.fsencode(way)) <= LONGEST:
        return way
    path = Path(way)
    return f"/proc/self/fd/{_directory(path.parent.parent)}/{path.parent.name}/{path.name}"


@functools.cache
def _directory(path: Path) -> int:
    """Stays open for good: a server has only one."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
