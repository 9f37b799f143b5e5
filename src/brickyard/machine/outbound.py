"""Which addresses the server may connect to on behalf of users, who must not reach into the machine and its networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def networks(text: str) -> tuple[Network, ...]:
    """The networks of a comma-separated list. Raises ValueError."""
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())


def is_own(host: str, allowed: Sequence[Network]) -> bool:
    """Whether the address is in one of the networks that were allowed."""
    address = _plain(host)
    return any(address.version == network.version and address in network for network in allowed)


def forbidden(host: str, allowed: Sequence[Network]) -> str:
    """Says why nobody may connect to the address, which is no name; "" if it is public, or in a network that was allowed."""
    if is_own(host, allowed) or (_plain(host).is_global and not _plain(host).is_multicast):
        return ""
    return "it is not a public address"


def _plain(host: str) -> Address:
    """The address itself, of one that is written as another kind."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(address.packed[12:])
        return address.ipv4_mapped or address.sixtofour or address
    return address
