"""The simulated provider of a workspace with one server: its world lives in the server's process.

Its agents speak the agent protocol directly with the server, so everything above the provider (plan, loops, store, API) is real;
only machines and Spark are missing. It never claims to compute: contexts and commands are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import AgentApi, Provider
from brickyard.providers.simulated import knobsfile
from brickyard.providers.simulated.client import SimulatedAgentClient
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.providers.simulated.servers import AttachedServer
from brickyard.providers.simulated.world import World
from brickyard.storage.directory import Storage


class SimulatedProvider(World, Provider):
    """Create it, then call `attach(server)` on the event loop that its agents are to run on."""

    name = "simulated"
    ends_with_server = True
    where = "nowhere"

    def __init__(
        self,
        *,
        node_types: Sequence[NodeType],
        knobs: Knobs | None = None,
        knobs_file: Path | None = None,
        spot_market: bool = False,
        storage: Storage | None = None,
    ) -> None:
        self._attached = AttachedServer()
        super().__init__(outside=self._attached, knobs=knobs, storage=storage)
        self.spot_market = spot_market
        self._node_types = tuple(node_types)
        self._knobs_file = knobs_file

    def attach(self, server: AgentApi) -> None:
        """Runs agents on the current event loop, calling `server`. Agents that outlived an earlier server call the new one."""
        self._attached.attach(server)
        self.begin()

    def agent_client(self) -> SimulatedAgentClient:
        return SimulatedAgentClient(self)

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        path = self._knobs_file
        return {"simulated_knobs": lambda: knobsfile.follow(path, self.turn)} if path is not None else {}

    def node_types(self) -> Sequence[NodeType]:
        return self._node_types

    def offer(self, node_types: Sequence[NodeType]) -> None:
        """Offers exactly these node types from now on."""
        self._node_types = tuple(node_types)

    def close(self, *, keep_nodes: bool) -> None:
        """Simulated nodes live in this process and always end with it, even with `keep_nodes`."""
        del keep_nodes
        self.end()
