"""Instance tokens. They are derived from the workspace's key, so the server stores none."""

from __future__ import annotations

import functools
import hashlib
import hmac
import json

KEPT = 8_192  # tokens that need not be derived again: those of the nodes that report
_BLOCK = 64  # bytes of SHA-256
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


class InstanceTokens:
    """`key` is the workspace's 32-byte secret; whoever has it can impersonate every agent."""

    def __init__(self, *, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError("the workspace key must have at least 32 bytes")
        padded = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner, self._outer = hashlib.sha256(padded.translate(_INNER)), hashlib.sha256(padded.translate(_OUTER))
        self._derive = functools.lru_cache(maxsize=KEPT)(self._derived)

    def agent_token(self, instance_id: str) -> str:
        """The token that the agent presents to the server."""
        return self._derive("agent", instance_id)

    def server_token(self, instance_id: str) -> str:
        """The token that the server presents to the agent."""
        return self._derive("server", instance_id)

    def is_agent(self, instance_id: str, token: str) -> bool:
        """Whether the token belongs to that instance. Constant time."""
        return hmac.compare_digest(self.agent_token(instance_id).encode(), token.encode())

    def ticket(self, instance_id: str, context_id: str, user: str) -> str:
        """What proves that a context on that instance is the user's."""
        return self._derive("context", json.dumps([instance_id, context_id, user]))

    def is_ticket(self, ticket: str, instance_id: str, context_id: str, user: str) -> bool:
        """Whether the ticket is that context's. Constant time."""
        return hmac.compare_digest(self.ticket(instance_id, context_id, user).encode(), ticket.encode())

    def _derived(self, purpose: str, about: str) -> str:
        """HMAC-SHA-256 (RFC 2104), from hashes that have taken in the key: a quarter of the time of `hmac.digest`, which makes
        them anew each time. Every start of a node derives two tokens."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(f"{purpose}/{about}".encode())
        outer.update(inner.digest())
        return outer.hexdigest()
