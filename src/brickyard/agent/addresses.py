"""Addresses of nodes with networks of their own, and what such a node may reach of the machine's network."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence

RANGE = ipaddress.ip_network("198.18.0.0/15")  # for tests of networks: nobody routes it, and no machine should have it
_MASTER = re.compile(r"spark://([0-9.]+):([0-9]{1,5})")


class NetworkError(Exception):
    """A network cannot be had, or cannot do what it was asked; the message is for a person."""


def forbidden(host: str, port: int, *, allow: Sequence[str], internet: bool, own: Callable[[str], bool]) -> str:
    """Why a node may not connect there; "" when it may. `own` says whether an address is this machine's."""
    if f"{host}:{port}" in allow:
        return ""
    if not internet:
        return "the internet is turned off"
    address = ipaddress.ip_address(host)
    if host.startswith("0.") or address.is_loopback or address.is_link_local or address.is_multicast or address.is_reserved:
        return "this machine's loopback and link-local addresses cannot be reached"
    if address in RANGE:
        return "there is no such node in this cluster"
    return "this machine's own addresses cannot be reached" if own(host) else ""


def master_host(master_url: str) -> str:
    """The address in a master's URL; "" when it is no such URL."""
    match = _MASTER.fullmatch(master_url)
    return match.group(1) if match else ""


def in_range(host: str) -> bool:
    """Whether it is the address of a node with a network of its own."""
    try:
        return ipaddress.ip_address(host) in RANGE
    except ValueError:
        return False


def free_address(seed: int, taken: Sequence[str]) -> str:
    """An address that is not taken; the same seed gives the same one as long as it is free. Raises NetworkError."""
    size = RANGE.num_addresses
    for step in range(size):
        found = RANGE[(seed + step) % size]
        if found.packed[3] not in (0, 255) and str(found) not in taken:
            return str(found)
    raise NetworkError("no address is left for another node")


def resolvers(text: str) -> list[str]:
    """The IPv4 name servers of a resolv.conf."""
    found = [line.split()[1] for line in text.splitlines() if line.startswith("nameserver") and len(line.split()) > 1]
    return list(dict.fromkeys(host for host in found if _is_ipv4(host)))[:3]


def _is_ipv4(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).version == 4
    return False


def is_own(host: str) -> bool:
    """Whether an address is this machine's: it would then be its own source."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            return bool(probe.getsockname()[0] == host)
        except OSError:
            return False
