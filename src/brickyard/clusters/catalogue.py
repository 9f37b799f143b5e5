"""What clusters can be created from: node types, zones and runtimes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from brickyard.clusters.views import node_type_view
from brickyard.domain.nodetypes import Catalogue, NodeType, NodeTypes
from brickyard.domain.runtimes import Runtime
from brickyard.domain.views import GetSparkVersionsResponse, ListAvailableZonesResponse, ListNodeTypesResponse, SparkVersion
from brickyard.plan.policies.governing import Choice
from brickyard.plan.policy import DEFAULT_MAX_NODES
from brickyard.plan.zones import DEFAULT_ZONE, ZONES

_encode = msgspec.json.Encoder().encode


class Offers:
    """For one server. Lists are JSON. Node types change with the provider; zones and runtimes are fixed.
    `max_nodes`: how many workers a cluster, and instances a pool, may have."""

    def __init__(
        self,
        *,
        node_types: NodeTypes,
        runtimes: Iterable[Runtime],
        max_nodes: int = DEFAULT_MAX_NODES,
    ) -> None:
        self.max_nodes = max_nodes
        self._node_types = Catalogue(node_types)
        self.runtimes = {runtime.key: runtime for runtime in runtimes}
        versions = [SparkVersion(key=runtime.key, name=runtime.name) for runtime in self.runtimes.values()]
        self.zone_list = _encode(ListAvailableZonesResponse(zones=list(ZONES), default_zone=DEFAULT_ZONE))
        self.spark_version_list = _encode(GetSparkVersionsResponse(versions=versions))

    def node_types(self) -> Mapping[str, NodeType]:
        """The node types currently available, by id."""
        return self._node_types.now()

    def choice(self) -> Choice:
        """What policies' rules depend on."""
        return Choice(self.runtimes.values(), self.node_types())

    def node_type_list(self) -> bytes:
        """The same, encoded for clients."""
        photon = any(runtime.photon for runtime in self.runtimes.values())
        views = [node_type_view(each, photon=photon) for each in self.node_types().values()]
        return _encode(ListNodeTypesResponse(node_types=views))
