"""Unix sockets that lead into the networks of clusters (`agent/network.py`), by names that fit into a socket's address."""

from __future__ import annotations

import functools
import os
from pathlib import Path

LONGEST = 100  # bytes; the kernel takes 107


def short(way: str) -> str:
    """The same socket, for this process: where the name is too long, through a descriptor of the directory of all ways."""
    if len(os.fsencode(way)) <= LONGEST:
        return way
    path = Path(way)
    return f"/proc/self/fd/{_directory(path.parent.parent)}/{path.parent.name}/{path.name}"


@functools.cache
def _directory(path: Path) -> int:
    """Open for good: a server has one."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
