"""Selects the network of an instance's node: a fresh one for every node host, or the machine's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from brickyard.agent.addresses import NetworkError, in_range, master_host
from brickyard.agent.config import AgentConfig
from brickyard.agent.host import HostError
from brickyard.agent.network import Network, Plan
from brickyard.domain.node import Assignment


class Networks:
    """One per agent, for its event loop. `on_end` is called if the network in use ends unexpectedly."""

    def __init__(self, *, config: AgentConfig, switchboard: int) -> None:
        self._config = config
        self._switchboard = switchboard
        self._network: Network | None = None
        self._starting: asyncio.Task[str] | None = None
        self._used = False
        self._limits = ""
        self.on_end: Callable[[], None] = lambda: None

    @property
    def text(self) -> str:
        """The text for NodeStatus.network."""
        if self._network is None:
            return f"shared: {self._config.network_reason}"
        if not self._config.internet:
            return "isolated, without the internet"
        return f"isolated; internet: {self._limits}" if self._limits else "isolated"

    @property
    def descriptors(self) -> tuple[int, int] | None:
        """The descriptors of the network in use, for a launcher; None if the node shares the machine's."""
        return self._network.descriptors if self._network is not None else None

    def prepare(self) -> None:
        """Starts making the next network, if nodes have their own: it takes as long as starting a Python process."""
        config = self._config
        if config.network == "shared" or self._starting is not None:
            return
        plan = Plan(
            address=config.address, ways=config.ways_dir, switchboard=self._switchboard, internet=config.internet,
            allow=config.network_allow,
        )  # fmt: skip
        self._network = network = Network(plan=plan, python=config.python, on_end=lambda: self._ended(network))
        self._starting = asyncio.create_task(network.start())

    async def fresh(self) -> Network | None:
        """Returns a network in which nothing has run, or None if nodes share the machine's. Raises HostError."""
        if self._config.network == "shared" and self._config.network_required:
            raise HostError(
                "WORKSPACE_CONFIGURATION_ERROR",
                "this workspace requires a network for every cluster, and this machine has none: "
                f'{self._config.network_reason} Nothing was started. (Or set network = "auto" to share the machine\'s.)',
            )
        if self._used or (self._network is not None and self._network.over):
            await self.end()
        self.prepare()
        if self._starting is None:
            return None
        self._used = True
        try:
            self._limits = await asyncio.shield(self._starting)
        except NetworkError as error:
            await self.end()
            raise HostError("INTERNAL_ERROR", f"the node's network cannot be made: {error}") from error
        return self._network

    async def join(self, wanted: Assignment) -> None:
        """Connects to the assignment's driver, if it names one. Raises HostError."""
        peer = master_host(wanted.master_url)
        if not wanted.master_url or (self._network is None and not in_range(peer)):
            return
        if self._network is None:
            text = "its driver has a network of its own, and this node has none. Restart the cluster."
            raise HostError("WORKER_SETUP_FAILURE", f"the worker cannot be connected: {text}")
        try:
            await self._network.join(peer)
        except NetworkError as error:
            raise HostError("WORKER_SETUP_FAILURE", f"the worker could not be connected to its driver: {error}") from error

    async def way(self, port: int) -> str:
        """Returns a Unix socket that leads to that port of the node, or "" if its ports are directly reachable. Raises
        HostError."""
        if self._network is None:
            return ""
        try:
            return await self._network.open(port)
        except NetworkError as error:
            raise HostError("GONE", str(error)) from error

    async def end(self) -> None:
        """Ends the current network, whether it is in use or not."""
        network, self._network = self._network, None
        starting, self._starting = self._starting, None
        self._used = False
        if starting is not None:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        if network is not None:
            await network.stop()

    def _ended(self, network: Network) -> None:
        if network is self._network and self._used:
            self.on_end()
