"""URLs that carry their own permission: for one user, one method, one file, and one part of it, for a limited time.

Databricks' clients ask for them to send and fetch large files, and use them without credentials. What such a URL may do is what
its user may do when it is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime
from typing import NamedTuple

from brickyard.access.credentials import renewed
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied
from brickyard.store.store import Store

DEFAULT_MS, MOST_MS = 3_600_000, 7 * 24 * 3_600_000  # a week, as in S3


class UrlExpired(PermissionDenied):
    """The URL no longer counts: clients ask for another one."""


class Grant(NamedTuple):
    """What a URL permits: the method, the file's path, and for parts the token of the upload and the number."""

    method: str
    path: str
    session: str = ""
    part: int = 0


class PresignedUrls:
    """`key` is the workspace's secret."""

    def __init__(self, *, key: bytes, store: Store, clock: Clock) -> None:
        self._key = hmac.new(key, b"presigned urls", hashlib.sha256).digest()
        self._store = store
        self._clock = clock

    def until_ms(self, expire_time: str) -> int:
        """When a URL expires (epoch ms) that is to count until that time, in RFC 3339; "": an hour.
        Raises InvalidParameterValue."""
        now = self._clock.now_ms()
        if not expire_time:
            return now + DEFAULT_MS
        try:
            until = datetime.fromisoformat(expire_time)
        except ValueError as error:
            raise InvalidParameterValue(
                f"field 'expire_time': it is {expire_time[:100]!r}; it must be a time such as 2026-01-31T12:00:00Z."
            ) from error
        until_ms = int((until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() * 1000)
        if not now < until_ms <= now + MOST_MS:
            raise InvalidParameterValue(
                f"field 'expire_time': it is {expire_time[:100]!r}; it must lie in the future, and at most 7 days ahead. It is "
                f"{datetime.fromtimestamp(now / 1000, UTC):%Y-%m-%dT%H:%M:%SZ} here."
            )
        return until_ms

    def sign(self, caller: Caller, grant: Grant, *, until_ms: int) -> str:
        """The signature (letters, digits, - and _) that lets anybody do this as that user. It expires with the token that asked
        for it, if that is earlier."""
        said = f"{self._clock.now_ms()}.{until_ms}.{caller.token_id}.{caller.user_name}".encode()
        return base64.urlsafe_b64encode(self._mac(grant, said) + said).decode().rstrip("=")

    async def caller(self, signature: str, grant: Grant) -> Caller:
        """The user of a signature, with current rights. Raises PermissionDenied if it was not made for this, and UrlExpired."""
        try:
            data = base64.b64decode(signature + "=" * (-len(signature) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        mac, said = data[:32], data[32:]
        if not hmac.compare_digest(mac, self._mac(grant, said)):
            raise PermissionDenied("The signature of this URL does not match its method, path, upload and part.")
        made_ms, until_ms, token_id, user_name = said.decode().split(".", 3)
        now = self._clock.now_ms()
        named = Caller(user_name=user_name, user_id="", is_admin=False, token_id=token_id)
        found = None
        if now < int(until_ms):
            found = await self._store.read(lambda tx: renewed(tx, named, now_ms=now, made_by_ms=int(made_ms)))
        if found is None:
            raise UrlExpired("This URL has expired, or the token with which it was made. Ask for another one.")
        return found

    def _mac(self, grant: Grant, said: bytes) -> bytes:
        named = "\0".join((grant.method, grant.path, grant.session, str(grant.part)))  # none of them can have a NUL
        return hmac.new(self._key, named.encode() + b"\0" + said, hashlib.sha256).digest()
