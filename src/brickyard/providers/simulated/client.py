"""The agent client for a simulated world that lives in the server's process."""

from __future__ import annotations

from typing import Any

from brickyard.domain.nodeops import AgentClient, AgentRefused, AgentUnreachable
from brickyard.providers.simulated.kernels import KernelRefused
from brickyard.providers.simulated.servers import DOMAIN
from brickyard.providers.simulated.world import World


class SimulatedAgentClient(AgentClient):
    """For simulated nodes, which refuse to compute unless a test answers for them."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        instance_id = endpoint.removeprefix("http://").removesuffix(DOMAIN)
        if self._world.agent(instance_id) is None:
            raise AgentUnreachable(f"{instance_id} is gone", sent=False)
        try:
            return self._world.call(instance_id, method, path, body)
        except KernelRefused as refused:
            raise AgentRefused(refused.code, refused.message) from refused

    async def close(self) -> None:
        """Nothing to close."""
