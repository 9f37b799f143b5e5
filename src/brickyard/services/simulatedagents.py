"""The agent client of a simulated workspace."""

from __future__ import annotations

from typing import Any

from brickyard.services.agentclient import AgentRefused, AgentUnreachable
from brickyard.testing.kernels import KernelRefused
from brickyard.testing.simulated import SimulatedProvider, simulated_instance


class SimulatedAgentClient:
    """`AgentClient` for simulated nodes, which compute nothing and say so, unless a test answers for them."""

    def __init__(self, provider: SimulatedProvider) -> None:
        self._provider = provider

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        instance_id = simulated_instance(endpoint)
        if instance_id not in self._provider.observe():
            raise AgentUnreachable(f"{instance_id} is gone", sent=False)
        try:
            return self._provider.kernels.call(instance_id, method, path, body)
        except KernelRefused as refused:
            raise AgentRefused(refused.code, refused.message) from refused

    async def close(self) -> None:
        """There is nothing to give back."""
