"""Links that open one cluster's Spark UI in a browser, for one user and a limited time.

The cluster generates the pages of its Spark UI, and anyone who runs code there can put scripts into them. So browsers get no
cookie that such a page could use elsewhere: the link itself contains the permission, valid only for that cluster's pages.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from brickyard.access.credentials import renewed
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.store.store import Store

LIFETIME_MS = 12 * 3_600_000


class UiLinks:
    """`key` is the workspace's secret."""

    def __init__(self, *, key: bytes, store: Store, clock: Clock) -> None:
        self._key = hmac.new(key, b"spark-ui links", hashlib.sha256).digest()
        self._store = store
        self._clock = clock

    def make(self, caller: Caller, cluster_id: str) -> tuple[str, int]:
        """A pass for that user to that cluster's UI (letters, digits, - and _), and its expiry (epoch ms).

        It expires with the token or browser session that requested it, if that is earlier.
        """
        until_ms = self._clock.now_ms() + LIFETIME_MS
        said = f"{until_ms}.{caller.token_id}.{caller.user_name}".encode()
        return _text(self._sign(cluster_id, said) + said), until_ms

    async def caller(self, given: str, cluster_id: str) -> Caller | None:
        """The user of a pass; None if it is invalid, expired or for another cluster, or if its user or token no longer exists."""
        try:
            data = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))
        except (binascii.Error, ValueError):
            return None
        signature, said = data[:32], data[32:]
        if not hmac.compare_digest(signature, self._sign(cluster_id, said)):
            return None
        until_ms, _, rest = said.decode().partition(".")
        token_id, _, user_name = rest.partition(".")
        now, made_ms = self._clock.now_ms(), int(until_ms) - LIFETIME_MS

        if now >= int(until_ms):
            return None
        named = Caller(user_name=user_name, user_id="", is_admin=False, token_id=token_id)
        return await self._store.read(lambda tx: renewed(tx, named, now_ms=now, made_by_ms=made_ms))

    def _sign(self, cluster_id: str, said: bytes) -> bytes:
        return hmac.new(self._key, cluster_id.encode() + b"\0" + said, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
