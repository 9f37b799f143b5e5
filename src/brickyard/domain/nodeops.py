"""Calls of the server to the agents of instances (`agent/server.py`): the client, and how a call can fail."""

from __future__ import annotations

from typing import Any, Protocol


class AgentUnreachable(Exception):
    """No answer: the agent is gone, too slow, or has no node. `sent` is false when the request surely did not reach it."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AgentRefused(Exception):
    """The agent, or the node behind it, said no. `code`: NOT_FOUND, LIMIT, DEAD, INVALID, or another word for a defect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AgentClient(Protocol):
    """One for all agents. Safe for concurrent use on one event loop."""

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request to the agent at `endpoint` (a base URL). Raises AgentUnreachable, AgentRefused."""
        ...

    async def close(self) -> None:
        """Give back its connections."""
        ...
