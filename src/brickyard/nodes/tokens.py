"""Tokens of instances: derived from the workspace's key, so that none is ever stored by the server."""

from __future__ import annotations

import hmac


class InstanceTokens:
    """`key` is the workspace's own secret of 32 bytes; who has it can speak for every agent."""

    def __init__(self, *, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError("the workspace key must have at least 32 bytes")
        self._key = key

    def agent_token(self, instance_id: str) -> str:
        """What the agent shows the server."""
        return self._derive("agent", instance_id)

    def server_token(self, instance_id: str) -> str:
        """What the server shows the agent."""
        return self._derive("server", instance_id)

    def is_agent(self, instance_id: str, token: str) -> bool:
        """Whether the token is that instance's, in constant time."""
        return hmac.compare_digest(self.agent_token(instance_id).encode(), token.encode())

    def _derive(self, purpose: str, instance_id: str) -> str:
        return hmac.digest(self._key, f"{purpose}/{instance_id}".encode(), "sha256").hex()
