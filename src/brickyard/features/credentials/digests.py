"""How credentials are stored: as keyed hashes. The database alone does not let anyone test guesses, or add a row that counts."""

from __future__ import annotations

import base64
import hashlib
import hmac

from brickyard.store.tokens import KEYED


class Digests:
    """`key` is the workspace's secret."""

    def __init__(self, *, key: bytes) -> None:
        self._key = hmac.new(key, b"credentials", hashlib.sha256).digest()

    def of(self, credential: str) -> str:
        """The hash under which a credential is stored."""
        return self.of_plain(plain(credential))

    def of_plain(self, digest: bytes) -> str:
        """Likewise, from the credential's plain SHA-256."""
        signed = hmac.new(self._key, digest, hashlib.sha256).digest()
        return KEYED + base64.urlsafe_b64encode(signed).decode().rstrip("=")


def plain(credential: str) -> bytes:
    """The credential's SHA-256."""
    return hashlib.sha256(credential.encode()).digest()
