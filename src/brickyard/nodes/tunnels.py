"""Ways to ports of nodes on other machines: Unix sockets of this server, each leading through TLS to an agent."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from brickyard.domain.cluster import Instance
from brickyard.domain.endpoints import parse
from brickyard.domain.nodeops import AgentUnreachable
from brickyard.machine.children import Child
from brickyard.nodes.carrier.process import Carrier, CarrierFailed
from brickyard.nodes.carrier.routes import NodePort, Route, Socket
from brickyard.nodes.tokens import InstanceTokens

AGAIN_S = 1.0  # before a process that has ended is started again
MOST_ROUTES = 4_096

log = structlog.get_logger(__name__)


class Tunnels:
    """One per server, for its event loop. The process starts with the first way. `directory` is its alone."""

    def __init__(self, *, directory: Path, tokens: InstanceTokens) -> None:
        self._directory = directory
        self._tokens = tokens
        self._routes: dict[str, Route] = {}  # by the path of the socket; the most recently opened last
        self._carrier = Carrier(directory=directory)
        self._watching: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._forgetting: set[asyncio.Task[None]] = set()

    async def open(self, node: Instance, port: int) -> str:
        """A Unix socket that leads to that port of the node, as long as it is the same node. Raises AgentUnreachable."""
        try:
            endpoint = parse(node.endpoint)
        except ValueError as error:
            raise AgentUnreachable(str(error), sent=False) from error
        if not endpoint.fingerprint:
            raise AgentUnreachable(f"the agent at {endpoint.url} speaks without TLS", sent=False)
        parts = urlsplit(endpoint.url)
        target = NodePort(
            host=parts.hostname or "",
            port=parts.port or 443,
            fingerprint=endpoint.fingerprint,
            token=self._tokens.server_token(node.instance_id),
            node_port=port,
            generation=node.node_generation,
        )
        path = f"{Path(node.instance_id).name}/{port}"
        async with self._turn:
            if self._carrier.child is None or self._routes.get(path) != Route(Socket(path), target):
                try:
                    await self._open(path, Route(Socket(path), target))
                except CarrierFailed as error:
                    raise AgentUnreachable(f"no way to port {port} can be opened: {error}", sent=False) from error
        return str(self._directory / path)

    def forget(self, instance_id: str) -> None:
        """Closes the ways to an instance that has gone."""
        if not self._routes:
            return
        task = asyncio.create_task(self._close(f"{Path(instance_id).name}/"))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def close(self) -> None:
        """Ends the process, with all connections."""
        for task in (self._watching, *self._forgetting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        async with self._turn:
            self._routes.clear()
            await self._carrier.close()

    async def _open(self, path: str, route: Route) -> None:
        before = self._routes.pop(path, None)
        self._routes[path] = route
        if len(self._routes) > MOST_ROUTES:
            del self._routes[next(iter(self._routes))]
        try:
            fault = (await self._tell())[path]
        except CarrierFailed as error:
            fault = str(error)
        if fault:
            del self._routes[path]
            if before is not None:
                self._routes[path] = before
            raise CarrierFailed(fault)

    async def _close(self, paths: str) -> None:
        async with self._turn:
            kept = {path: route for path, route in self._routes.items() if not path.startswith(paths)}
            gone, self._routes = len(self._routes) - len(kept), kept
            if gone and self._carrier.child is not None:
                with contextlib.suppress(CarrierFailed):
                    await self._tell()
            if not self._routes:  # the process has ended, and left its last sockets
                shutil.rmtree(self._directory, ignore_errors=True)

    async def _tell(self) -> dict[str, str]:
        """Has exactly these routes open. Returns why each is not, or "". Raises CarrierFailed."""
        if (before := self._carrier.child) is None:
            shutil.rmtree(self._directory, ignore_errors=True)
            try:
                self._directory.mkdir(mode=0o700, parents=True)
            except OSError as error:
                raise CarrierFailed(f"{self._directory}: {error.strerror}") from error
        faults = await self._carrier.tell(list(self._routes.values()))
        if (child := self._carrier.child) is not None and child is not before:
            self._watching = asyncio.create_task(self._watch(child))
        return dict(zip(self._routes, faults, strict=True))

    async def _watch(self, child: Child) -> None:
        """Starts it again when it ends by itself: somebody may hold a way for as long as a cluster runs."""
        code = await child.ended()
        async with self._turn:
            if self._carrier.child is not child:
                return
            await self._carrier.close()
        log.warning("tunnels_ended", code=code, why=child.last_words)
        await asyncio.sleep(AGAIN_S)
        async with self._turn:
            if self._carrier.child is None and self._routes:
                with contextlib.suppress(CarrierFailed):  # the next one who opens a way tries again
                    await self._tell()
