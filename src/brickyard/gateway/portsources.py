"""Finds what http port mappings lead to: a port of the cluster's driver, through its way into the cluster's network."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import InvalidState, ResourceDoesNotExist
from brickyard.domain.nodeops import PORT_OPEN, OpenPort, OpenPortOf
from brickyard.domain.ports import PortMapping
from brickyard.gateway.portproxy import PortTarget
from brickyard.plan.ports import spark_ports
from brickyard.services.attach import AttachService, RunningCluster
from brickyard.services.caller import Caller
from brickyard.services.v1 import PortService

MAX_KNOWN = 10_000


class _Known(NamedTuple):
    incarnation: int
    host: str
    opened: OpenPort


class PortSources:
    """One per server."""

    def __init__(self, *, attach: AttachService, ports: PortService) -> None:
        self._attach = attach
        self._ports = ports
        self._known: dict[tuple[str, int], _Known] = {}

    async def find(self, caller: Caller, cluster_id: str, port: int) -> PortTarget:
        """What a mapping of a cluster that the caller may attach to leads to. Raises ApiError."""
        found = await self._attach.look(caller, cluster_id)
        mapping = await self._mapping(cluster_id, port)
        if found.driver is None:
            raise InvalidState(f"Cluster {cluster_id} is {found.state.title()}. Start it first.")
        if port in spark_ports([found.driver]):  # which it took after the mapping was made
            raise InvalidState(f"Spark uses port {port} of the driver node. Change the mapping's internal_port.")
        known = await self._open(found.cluster, found.driver, port)
        return PortTarget(f"http://{known.host}:{port}", known.opened.way, mapping.strip_prefix)

    async def check(self, caller: Caller, cluster_id: str, port: int) -> None:
        """Raises ApiError if the caller may not attach to the cluster, or the mapping no longer exists."""
        await self._attach.look(caller, cluster_id)
        await self._mapping(cluster_id, port)

    def forget(self, cluster_id: str, port: int) -> None:
        """Drops the cached location of a port that does not answer."""
        self._known.pop((cluster_id, port), None)

    async def _mapping(self, cluster_id: str, port: int) -> PortMapping:
        mapping = await self._ports.http(cluster_id, port)
        if mapping is None:
            raise ResourceDoesNotExist(
                f"Port {port} of cluster {cluster_id} has no http mapping. POST /v1/clusters/{cluster_id}/proxy/ports makes one."
            )
        return mapping

    async def _open(self, cluster: Cluster, driver: Instance, port: int) -> _Known:
        key = (cluster.cluster_id, port)
        known = self._known.get(key)
        if known is not None and known.incarnation == cluster.incarnation:
            return known
        generation = driver.assignment.generation if driver.assignment is not None else 0
        opened = await self._attach.ask(driver, PORT_OPEN, OpenPortOf(port=port, generation=generation))
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        known = self._known[key] = _Known(cluster.incarnation, RunningCluster(cluster, driver).host, opened)
        return known
