"""Identifies this machine: processes that can see each other are on the same one."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path


def machine() -> str:
    """The host name, the boot id and, where available, the PID namespace: each container counts as a separate machine."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        found.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(found)
