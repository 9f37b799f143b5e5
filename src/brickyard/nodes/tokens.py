"""Instance tokens. They are derived from the workspace's key, so the server stores none."""

from __future__ import annotations

import functools
import hmac
import json

KEPT = 8_192  # tokens that need not be derived again: those of the nodes that report


class InstanceTokens:
    """`key` is the workspace's 32-byte secret; whoever has it can impersonate every agent."""

    def __init__(self, *, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError("the workspace key must have at least 32 bytes")
        self._key = key
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
        return hmac.digest(self._key, f"{purpose}/{about}".encode(), "sha256").hex()
