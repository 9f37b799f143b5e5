"""Which machine this is: processes that see one another are on the same one."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path


def machine() -> str:
    """Its name, its boot and, where there are such, the namespace of processes: containers are machines of their own."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        found.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(found)
