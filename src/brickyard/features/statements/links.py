"""Links to chunks of results that carry their own permission, for a limited time."""

from __future__ import annotations

import base64
import hashlib
import hmac

from brickyard.domain.clock import Clock
from brickyard.domain.errors import PermissionDenied


class ResultLinks:
    """`key` is the workspace's secret."""

    def __init__(self, *, key: bytes, clock: Clock) -> None:
        self._key = hmac.new(key, b"result links", hashlib.sha256).digest()
        self._clock = clock

    def sign(self, statement_id: str, index: int, *, until_ms: int) -> str:
        """The signature (letters, digits, -, _ and a dot) that lets anybody read the chunk until then."""
        return f"{until_ms}.{self._mac(statement_id, index, until_ms)}"

    def check(self, signature: str, statement_id: str, index: int) -> None:
        """Raises PermissionDenied if the signature was not made for this chunk, or counts no more."""
        until, _, mac = signature.partition(".")
        until_ms = int(until) if until.isascii() and until.isdigit() and len(until) < 16 else 0
        if not hmac.compare_digest(mac.encode(), self._mac(statement_id, index, until_ms).encode()):
            raise PermissionDenied("The signature of this link does not match its chunk.")
        if self._clock.now_ms() >= until_ms:
            raise PermissionDenied("This link has expired. Get the chunk again for a new one.")

    def _mac(self, statement_id: str, index: int, until_ms: int) -> str:
        mac = hmac.new(self._key, f"{statement_id}/{index}/{until_ms}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def link_url(base_url: str, statement_id: str, index: int, signature: str) -> str:
    """Where a chunk is read with that signature."""
    return f"{base_url}/api/2.0/sql/statements/{statement_id}/external/{index}?signature={signature}"
