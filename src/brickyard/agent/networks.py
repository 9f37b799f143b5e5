"""Selects the network of an instance's node: a fresh one for every node host, or the machine's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from brickyard.agent.config import AgentConfig
from brickyard.agent.host import HostError
from brickyard.domain.node import Assignment
from brickyard.machine.addresses import RANGE, NetworkError, in_range, is_own, master_host
from brickyard.sandbox.network import Network, Plan

Lend = Callable[[Sequence[str]], AbstractAsyncContextManager[tuple[int, int] | None]]
_PORTS = {"http": 80, "https": 443}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class NetworkUser(Protocol):
    """The node whose processes use a network: `state.NodeState`."""

    def cut_off(self) -> None:
        """The network has ended unexpectedly, and all connections with it."""
        ...


class Networks:
    """One per agent, for its event loop."""

    def __init__(self, *, config: AgentConfig, switchboard: int) -> None:
        self._config = config
        self._switchboard = switchboard
        self._network: Network | None = None
        self._starting: asyncio.Task[str] | None = None
        self._user: NetworkUser | None = None
        self._limits = ""

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
        self._network = Network(plan=plan, python=config.python, owner=self)
        self._starting = asyncio.create_task(self._network.start())

    async def fresh(self, user: NetworkUser) -> Network | None:
        """Returns a network in which nothing has run, or None if nodes share the machine's. Raises HostError."""
        if self._config.network == "shared" and self._config.network_required:
            raise HostError(
                "WORKSPACE_CONFIGURATION_ERROR",
                "this workspace requires a network for every cluster, and this machine has none: "
                f'{self._config.network_reason} Nothing was started. (Or set network = "auto" to share the machine\'s.)',
            )
        if self._user is not None or (self._network is not None and self._network.over):
            await self.end()
        self.prepare()
        if self._starting is None:
            return None
        self._user = user
        try:
            self._limits = await asyncio.shield(self._starting)
        except NetworkError as error:
            await self.end()
            raise HostError("INTERNAL_ERROR", f"the node's network cannot be made: {error}") from error
        return self._network

    @contextlib.asynccontextmanager
    async def lend(self, urls: Sequence[str]) -> AsyncIterator[tuple[int, int] | None]:
        """A network with the node's rules and without the node, for a program of ours that has to reach `urls`. Administrators
        have chosen these, so they may be on this machine; without the internet, only URLs elsewhere lead there. Yields the
        network's descriptors, or None if nodes share the machine's. Raises NetworkError."""
        config = self._config
        if config.network == "shared":
            yield None
            return
        places = await asyncio.to_thread(_places, [*urls, *proxies(os.environ)])
        plan = Plan(
            address=str(RANGE[1]), ways=str(Path(config.ways_dir).parent / f".lent-{secrets.token_hex(8)}"),
            switchboard=self._switchboard, internet=config.internet or not all(places.values()),
            allow=(*config.network_allow, *places),
        )  # fmt: skip
        lent = Network(plan=plan, python=config.python)
        try:
            await lent.start()
            yield lent.descriptors
        finally:
            await lent.stop()

    async def join(self, wanted: Assignment) -> None:
        """Connects to the assignment's driver, if it names one. Raises HostError."""
        peer = master_host(wanted.master_url)
        if not wanted.master_url or (self._network is None and not in_range(peer)):
            return
        if self._network is None:
            text = "its driver has its own network, and this node has none. Restart the cluster."
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
        self._user = None
        if starting is not None:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        if network is not None:
            await network.stop()

    def network_ended(self, network: Network) -> None:
        if network is self._network and self._user is not None:
            self._user.cut_off()


def proxies(environ: Mapping[str, str]) -> list[str]:
    """The HTTP proxies of this machine."""
    return [environ[name] for name in _PROXIES if environ.get(name)]


def _places(urls: Sequence[str]) -> dict[str, bool]:
    """ADDRESS:PORT of each URL's host, and whether it is this machine's."""
    found: dict[str, bool] = {}
    for url in urls:
        parts = urlsplit(url)
        with contextlib.suppress(ValueError, OSError):  # not a URL; an unknown name is the installer's to report
            port = parts.port or _PORTS.get(parts.scheme, 0)
            for *_, address in socket.getaddrinfo(parts.hostname, port, socket.AF_INET) if parts.hostname else ():
                host = str(address[0])
                found[f"{host}:{port}"] = host.startswith("127.") or is_own(host)
    return found
