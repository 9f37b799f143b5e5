"""`/ports/{cluster_id}/{internal_port}/...`: web servers on drivers, for http port mappings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from starlette.types import Scope

from brickyard.api.edge.authentication import address_of
from brickyard.clusters.attach.service import AttachService, RunningCluster
from brickyard.domain.audit import PORT_OPENED
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import InvalidState, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.domain.nodeops import PORT_OPEN, OpenPort, OpenPortOf
from brickyard.domain.ports import PortMapping
from brickyard.features.ports.service import PortService
from brickyard.gateway import portheaders
from brickyard.gateway.answers import with_query
from brickyard.gateway.portheaders import Place
from brickyard.gateway.webproxy import Address, Answer, WebSource, below
from brickyard.plan.ports import spark_ports

if TYPE_CHECKING:
    import aiohttp

MAX_KNOWN = 10_000


class _Known(NamedTuple):
    incarnation: int
    host: str
    opened: OpenPort


class PortTarget(NamedTuple):
    """Where a mapping leads: the address of the driver's port and, if it is in a separate network, the Unix socket to it."""

    url: str
    way: str
    place: Place


class HttpPorts(WebSource[PortTarget]):
    """One per server."""

    prefix = "/ports/"
    pattern = below(r"/ports/(?P<cluster_id>[A-Za-z0-9-]{1,64})/(?P<port>\d{1,5})")
    usage = "The http port mappings of a cluster are at /ports/CLUSTER-ID/PORT/."
    operation = PORT_OPENED
    missing = "A port requires permission to attach to the cluster."
    read_s = 600.0
    read_only = False
    allowed = portheaders.ALLOWED

    def __init__(self, *, attach: AttachService, ports: PortService) -> None:
        self._attach = attach
        self._ports = ports
        self._known: dict[tuple[str, int], _Known] = {}

    async def find(self, caller: Caller, address: Address) -> PortTarget:
        cluster_id, port = address.cluster_id, address.port
        found = await self._attach.look(caller, cluster_id)
        mapping = await self._mapping(cluster_id, port)
        if found.driver is None:
            raise InvalidState(f"Cluster {cluster_id} is {found.state.title()}. Start it first.")
        if port in spark_ports([found.driver]):  # which it took after the mapping was made
            raise InvalidState(f"Spark uses port {port} of the driver node. Change the mapping's internal_port.")
        known = await self._open(found.cluster, found.driver, port)
        place = Place(address.base, address.given, port, mapping.strip_prefix)
        return PortTarget(f"http://{known.host}:{port}", known.opened.way, place)

    async def check(self, caller: Caller, address: Address) -> None:
        await self._attach.look(caller, address.cluster_id)
        await self._mapping(address.cluster_id, address.port)

    def forget(self, address: Address) -> TemporarilyUnavailable:
        self._known.pop((address.cluster_id, address.port), None)
        return TemporarilyUnavailable(
            f"Nothing answers in HTTP on port {address.port} of the driver of cluster {address.cluster_id}. "
            "Is the program running?"
        )

    def elsewhere(self, upstream: PortTarget, address: Address, scope: Scope) -> str:
        return "" if address.path else with_query("/", scope)

    def request(self, upstream: PortTarget, address: Address, scope: Scope) -> tuple[str, list[tuple[str, str]]]:
        headers = portheaders.request_headers(
            scope["headers"], upstream.place, client=address_of(scope), scheme=scope["scheme"].replace("ws", "http")
        )
        return with_query(upstream.place.inside(address.path or "/"), scope), headers

    def answer(self, upstream: PortTarget, address: Address, response: aiohttp.ClientResponse, *, https: bool) -> Answer:
        plain = response.headers.get("content-encoding", "identity").lower() == "identity"
        is_page = response.content_type == "text/html" and plain
        headers = portheaders.response_headers(response.raw_headers, upstream.place, https=https, rewritten=is_page)
        return Answer(headers, partial(portheaders.page, place=upstream.place) if is_page else None)

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
        opened = await self._attach.ask(driver, PORT_OPEN, OpenPortOf(port=port, generation=driver.node_generation))
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        known = self._known[key] = _Known(cluster.incarnation, RunningCluster(cluster, driver).host, opened)
        return known
