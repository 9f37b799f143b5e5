"""Whose program listens on a port: nodes of several clusters may share a machine's loopback, and none may pose as another."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from brickyard.machine import processes

_LISTEN = "0A"


class Listener(NamedTuple):
    """A listening socket: its number in the kernel, and its user."""

    inode: str
    uid: int


def is_strangers(host: str, port: int, *, top: int, instance_id: str) -> bool:
    """Whether a connection to that address would arrive at a process outside of the node, whose first process is `top`. Runs on a
    thread. Where the system does not tell, nobody is a stranger."""
    names = {f"socket:[{each.inode}]": each.uid for each in listeners(host, port)}
    if not names:
        return False
    node = set(processes.descendants(top))
    left = set(names) - _held(node, names)
    if left:  # without isolation, a process of the node may have left the tree
        left -= _held({each.pid for each in processes.marked(instance_id)}, left)
    if not left:
        return False
    if any(names[each] != os.geteuid() for each in left):
        return True
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - node  # noqa: PTH208 - only names are needed
    return bool(_held(others, left))


def listeners(host: str, port: int) -> list[Listener]:
    """The sockets at which a connection to that address arrives: those that listen there, else those that listen everywhere."""
    there: list[Listener] = []
    everywhere: list[Listener] = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                address, _, found = fields[1].partition(":")
                if fields[3] != _LISTEN or int(found, 16) != port:
                    continue
                bound = _address(address)
                listener = Listener(fields[9], int(fields[7]))
                if bound == ipaddress.ip_address(host):
                    there.append(listener)
                elif bound.is_unspecified:
                    everywhere.append(listener)
    return there or everywhere


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as the kernel prints it: words of four bytes, each in the machine's order."""
    words = [bytes.fromhex(text[index : index + 8]) for index in range(0, len(text), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if len(data) == 4:
        return ipaddress.IPv4Address(data)
    address = ipaddress.IPv6Address(data)
    return address.ipv4_mapped or address


def _held(pids: Iterable[int], names: Iterable[str]) -> set[str]:
    """Those of the sockets that one of the processes holds open, as far as we may see."""
    wanted, found = set(names), set()
    for path in processes.descriptors(pids):
        with contextlib.suppress(OSError):
            if (name := os.readlink(path)) in wanted:  # noqa: PTH115 - runs for every open file
                found.add(name)
    return found
