"""Ports for servers of the tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import tempfile
from pathlib import Path

from brickyard.machine.listening import CannotListen, bound_alone

HAS_IPV6 = Path("/proc/net/if_inet6").exists() and " lo\n" in Path("/proc/net/if_inet6").read_text()  # ::1

_RANGE = range(15_000, 32_000)
_ours: set[int] = set()
_claims = -1


def free_port() -> int:
    """A port that is free, and that no other process of the tests gets as long as this one lives. It lies outside the ports that
    the kernel gives to connections and to servers that ask for any port, so that none of them takes it before it is used."""
    ports = _outside_of_ephemeral()
    for port in random.sample(ports, len(ports)):
        if port in _ours or not _claimed(port):
            continue
        _ours.add(port)  # one that something else has is not tried again
        with contextlib.suppress(CannotListen, OSError), bound_alone("127.0.0.1", port) as probe:
            probe.listen()
            return port
    raise AssertionError("no port is free")


def _outside_of_ephemeral() -> list[int]:
    file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    low, high = (int(word) for word in file.read_text().split()) if file.exists() else (32_768, 65_535)
    return [port for port in _RANGE if not low <= port <= high] or list(_RANGE)


def _claimed(port: int) -> bool:
    """Whether no other process has claimed it: it locks that byte of a file, until it ends."""
    global _claims  # noqa: PLW0603 - closing any descriptor of the file would give up all locks
    if _claims < 0:
        path = Path(tempfile.gettempdir()) / f"brickyard-test-ports-{os.getuid()}"
        _claims = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True
