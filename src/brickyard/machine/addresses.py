"""Addresses of nodes that have their own network, and what such a node may reach on the machine's network."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence

RANGE = ipaddress.ip_network("198.18.0.0/15")  # reserved for network tests: never routed, and no machine should use it
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_MASTER = re.compile(r"spark://([0-9.]+):([0-9]{1,5})")


class NetworkError(Exception):
    """A network cannot be made or used; the message is meant for users."""


def forbidden(host: str, port: int, *, allow: Sequence[str], internet: bool, own: Callable[[str], bool]) -> str:
    """Returns why a node may not connect to that address, or "" if it may. `own` tells whether an address is this machine's."""
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
    """Returns the address in a master URL, or "" if the URL is not one."""
    match = _MASTER.fullmatch(master_url)
    return match.group(1) if match else ""


def in_range(host: str) -> bool:
    """Whether `host` is the address of a node that has its own network."""
    try:
        return ipaddress.ip_address(host) in RANGE
    except ValueError:
        return False


def free_address(seed: int, taken: Sequence[str]) -> str:
    """Returns a free address. The same seed gives the same address while that is free. Raises NetworkError."""
    size = RANGE.num_addresses
    for step in range(size):
        found = RANGE[(seed + step) % size]
        if found.packed[3] not in (0, 255) and str(found) not in taken:
            return str(found)
    raise NetworkError("no address is left for another node")


def resolvers(text: str) -> list[str]:
    """Returns the IPv4 name servers in the text of a resolv.conf, at most three."""
    found = [line.split()[1] for line in text.splitlines() if line.startswith("nameserver") and len(line.split()) > 1]
    return list(dict.fromkeys(host for host in found if _is_ipv4(host)))[:3]


def _is_ipv4(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).version == 4
    return False


def is_own(host: str) -> bool:
    """Whether this machine owns the address, that is, would use it as its own source address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            return bool(probe.getsockname()[0] == host)
        except OSError:
            return False


def own_addresses() -> list[str]:
    """The addresses by which other machines may reach this one."""
    import psutil  # noqa: PLC0415 - most users of this module do without

    found = (each.address for link in psutil.net_if_addrs().values() for each in link if each.family in _INTERNET)
    return [host for host in found if "%" not in host and not ipaddress.ip_address(host).is_loopback]
