"""The agent client of a simulated workspace."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from brickyard.domain.nodeops import AgentClient, AgentRefused, AgentUnreachable
from brickyard.providers.simulated.kernels import KernelRefused, SimulatedKernels

DOMAIN = ".simulated.invalid"


class SimulatedAgentClient(AgentClient):
    """For simulated nodes, which compute nothing and say so, unless a test answers for them."""

    def __init__(self, kernels: SimulatedKernels, listed: Callable[[], Container[str]]) -> None:
        self._kernels = kernels
        self._listed = listed

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        instance_id = endpoint.removeprefix("http://").removesuffix(DOMAIN)
        if instance_id not in self._listed():
            raise AgentUnreachable(f"{instance_id} is gone", sent=False)
        try:
            return self._kernels.call(instance_id, method, path, body)
        except KernelRefused as refused:
            raise AgentRefused(refused.code, refused.message) from refused

    async def close(self) -> None:
        """There is nothing to give back."""
