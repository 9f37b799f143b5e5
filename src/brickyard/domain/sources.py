"""Where a call comes from, as far as IP access lists are concerned: an address, or one of these words."""

from __future__ import annotations

import bisect
import ipaddress
from collections.abc import Iterable

import msgspec

HERE = "here"  # the connection begins on the server's own machine, and no proxy has passed the call on
FORWARDED = frozenset(  # headers that proxies add
    {b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-real-ip", b"forwarded", b"via"}
)
UNKNOWN = ""  # nobody that is trusted says

_MAPPED_BITS = 96  # of ::ffff:0:0/96, before the IPv4 address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def source_of(address: str, *, own_address: str = "", proxied: bool = False, forwarded: bool = False) -> str:
    """Return where a call comes from.

    `address`: the client's, by the word of the connection or of a trusted proxy. `own_address`: where alone the server listens.
    `proxied`: a trusted proxy sent the call. `forwarded`: the call has headers that proxies add.

    A call from this machine that some proxy has passed on, which no setting names, may come from anywhere.
    """
    if proxied and forwarded:
        return plain(address)
    found = plain(address)
    if not (is_loopback(found) or (found and found == own_address)):
        return found
    return UNKNOWN if forwarded else HERE


def is_loopback(address: str) -> bool:
    """Whether it is an address by which a machine speaks with itself, written as `plain` does."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def plain(address: str) -> str:
    """The address without its zone, and an IPv4 address as such, also where a socket of both kinds reports it as IPv6. UNKNOWN
    for what is no address: a proxy passes on whatever a client calls itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return UNKNOWN
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def network(text: str) -> _Network:
    """An address or a CIDR range, which may have bits set behind its prefix. Raises ValueError."""
    found = ipaddress.ip_network(text, strict=False)
    mapped = found.network_address.ipv4_mapped if isinstance(found.network_address, ipaddress.IPv6Address) else None
    if mapped is not None and found.prefixlen >= _MAPPED_BITS:
        return ipaddress.ip_network((mapped, found.prefixlen - _MAPPED_BITS))
    return found


class SourceRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses and ranges are refused, and which alone are let in; None: all others."""

    blocked: tuple[str, ...] = ()
    allowed: tuple[str, ...] | None = None


class _Ranges:
    """A set of addresses, as sorted ranges that do not touch. Addresses are (version, number)."""

    def __init__(self, networks: Iterable[_Network]) -> None:
        found = sorted(
            ((each.version, int(each.network_address)), (each.version, int(each.broadcast_address))) for each in networks
        )
        self._firsts: list[tuple[int, int]] = []
        self._lasts: list[tuple[int, int]] = []
        for first, last in found:
            if self._lasts and first <= self._lasts[-1]:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def __contains__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        key = address.version, int(address)
        at = bisect.bisect_right(self._firsts, key) - 1
        return at >= 0 and key <= self._lasts[at]


class Admission:
    """Rules, so that many calls are decided quickly. `rules` None: there are none."""

    def __init__(self, rules: SourceRules | None) -> None:
        self.rules = rules
        self._blocked = _Ranges(map(network, rules.blocked if rules is not None else ()))
        allowed = rules.allowed if rules is not None else None
        self._allowed = None if allowed is None else _Ranges(map(network, allowed))

    def admits(self, source: str) -> bool:
        """Whether calls from there are answered. Those from the server's own machine are: the administrator's token is there, and
        a workspace that nobody can reach could not be mended. An unknown source is in no list, so it is refused."""
        if self.rules is None or source == HERE:
            return True
        try:
            address = ipaddress.ip_address(plain(source))
        except ValueError:
            return False
        return address not in self._blocked and (self._allowed is None or address in self._allowed)
