"""Slows down the guessing of credentials.

Wrong credentials count for the address that they come from, and for how they begin. Where too many have come, nothing is looked
up any more until some time has passed: the answer is 429, whether the guess is right or wrong. Credentials that this server has
accepted before still get in, so a program that fails all the time does not lock out others behind the same address.
"""

from __future__ import annotations

import ipaddress
import math
import time

import structlog

from brickyard.access.buckets import Buckets
from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import RequestLimitExceeded
from brickyard.features.audit.service import AuditLog
from brickyard.plan.ratelimits import Limit

FAILURES = Limit(burst=20, interval_s=3.0)
PREFIX = 12  # characters of a credential: "dapi" and 8 more, which no two tokens share by accident
_SIGNED = "eyJ"  # signed tokens of one issuer all begin alike
_KNOWN = 10_000  # accepted credentials that are remembered
_V6_BITS = 64  # what one customer of a network provider has at least

_log = structlog.get_logger(__name__)


class LoginThrottle:
    """One per server, for one event loop. An empty address is not counted: nobody knows where the call comes from."""

    def __init__(
        self,
        *,
        limit: Limit = FAILURES,
        monotonic: Monotonic = time.monotonic,
        audit: AuditLog | None = None,
    ) -> None:
        self._audit = audit
        self._addresses = Buckets(limit)
        self._prefixes = Buckets(limit)
        self._monotonic = monotonic
        self._waiting_s = 0.0  # until then somebody waits
        # Hashes with this process' random key, not the credentials: a wrong guess with the same hash would only be looked up.
        self._known: dict[int, None] = {}

    def admit(self, address: str, credential: str) -> None:
        """Raises RequestLimitExceeded if this credential is not looked up now."""
        now = self._monotonic()
        if now >= self._waiting_s:
            return
        wait = max(self._addresses.wait_s(_network(address), now), self._prefixes.wait_s(_prefix(credential), now))
        if wait and hash(credential) not in self._known:
            raise RequestLimitExceeded(
                f"Too many requests with invalid credentials. Check yours, and try again in {math.ceil(wait)} s.",
                retry_after_s=math.ceil(wait),
            )

    def accepted(self, credential: str) -> None:
        """Remembers a valid credential."""
        key = hash(credential)
        if key not in self._known:
            self._known[key] = None
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]

    def failed(self, address: str, credential: str, *, recorded: bool = False) -> None:
        """Counts an invalid credential, and logs that there was one. `recorded`: the audit log has it already."""
        now, network = self._monotonic(), _network(address)
        self._known.pop(hash(credential), None)
        for buckets, key in ((self._addresses, network), (self._prefixes, _prefix(credential))):
            if key and not buckets.wait_s(key, now):  # failures while one waits anyway must not make that longer
                buckets.spend(key, now)
                self._waiting_s = max(self._waiting_s, now + buckets.wait_s(key, now))
        if self._audit is not None and not recorded:
            self._audit.failed_login(address)
        _log.warning("invalid_credential", address=address, waits_s=math.ceil(self._addresses.wait_s(network, now)))


def _prefix(credential: str) -> str:
    return "" if credential.startswith(_SIGNED) or len(credential) < PREFIX else credential[:PREFIX]


def _network(address: str) -> str:
    """What counts as one address: of IPv6, a whole network."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped) if parsed.ipv4_mapped else str(ipaddress.ip_network((parsed, _V6_BITS), strict=False))
