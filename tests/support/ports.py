"""Ports for servers of the tests."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

HAS_IPV6 = Path("/proc/net/if_inet6").exists() and " lo\n" in Path("/proc/net/if_inet6").read_text()  # ::1


def free_port() -> int:
    """A port that was free a moment ago. It lies below the ports that the kernel gives to connections and to servers that ask for
    any port, so that none of them takes it before it is used."""
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = random.randrange(15_000, 32_000)  # noqa: S311 - no secret
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
