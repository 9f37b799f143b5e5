"""Where a server calls an agent: a base URL, and for agents on other machines the only certificate that counts there.

The certificate's fingerprint is part of the address (`https://10.0.0.7:41234#<64 hex digits>`), as the agent reports it and
as its row holds it: nobody can have one without the other.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PINNED = re.compile(r"(https://[^/?#\s]+)#([0-9a-f]{64})")
_PLAIN = re.compile(r"http://[^?#\s]+")


class Endpoint(NamedTuple):
    """`fingerprint`: of the agent's certificate (SHA-256 of its DER form, in hex); "" for an agent that speaks plain HTTP."""

    url: str
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.url}#{self.fingerprint}" if self.fingerprint else self.url


def parse(text: str) -> Endpoint:
    """Raises ValueError for anything but http:// without and https:// with a fingerprint."""
    if match := _PINNED.fullmatch(text):
        return Endpoint(match.group(1), match.group(2))
    if _PLAIN.fullmatch(text):
        return Endpoint(text)
    raise ValueError(f"{text[:200]!r} is not the endpoint of an agent")
