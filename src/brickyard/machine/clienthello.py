"""Reads which protocols a client offers at the beginning of a TLS connection (ALPN), before anybody answers it. Pure.

Only what the decision needs is parsed [RFC 8446, 4.1.2; RFC 7301, 3.1]. Whatever is malformed counts as an offer of nothing: the
TLS library that gets the same bytes afterwards refuses it.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 5 + (1 << 14)  # bytes of the first record
_HANDSHAKE, _CLIENT_HELLO, _ALPN = 0x16, 0x01, 16


class Incomplete(NamedTuple):
    """The beginning of a connection is not enough: `needed` bytes are."""

    needed: int


class Offer(NamedTuple):
    """What a client speaks. `tls` False: it has sent no TLS. `protocols`: its ALPN names, empty without that extension."""

    tls: bool
    protocols: tuple[bytes, ...] = ()


def offer(data: bytes) -> Offer | Incomplete:
    """The offer in a connection's first bytes."""
    if not data:
        return Incomplete(1)
    if data[0] != _HANDSHAKE:
        return Offer(tls=False)
    if len(data) < 5:
        return Incomplete(5)
    record = 5 + int.from_bytes(data[3:5], "big")
    if record > MOST:
        return Offer(tls=True)
    if len(data) < record:
        return Incomplete(record)
    return Offer(tls=True, protocols=_protocols(_Reader(data[5:record])))


def _protocols(record: _Reader) -> tuple[bytes, ...]:
    if record.number(1) != _CLIENT_HELLO:
        return ()
    hello = record.vector(3)
    hello.skip(2 + 32)  # version and random
    for size in (1, 2, 1):  # session id, cipher suites, compression methods
        hello.vector(size)
    extensions = hello.vector(2)
    while extensions.left:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _ALPN:
            names, found = body.vector(2), []
            while names.left:
                found.append(names.vector(1).rest())
            return tuple(found)
    return ()


class _Reader:
    """Reads numbers and vectors. What is missing at the end reads as 0 and as nothing."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def skip(self, count: int) -> None:
        self._at = min(len(self._data), self._at + count)

    def number(self, size: int) -> int:
        start = self._at
        self.skip(size)
        return int.from_bytes(self._data[start : self._at], "big")

    def vector(self, size: int) -> _Reader:
        length, start = self.number(size), self._at
        self.skip(length)
        return _Reader(self._data[start : self._at])

    def rest(self) -> bytes:
        return self._data[self._at :]
