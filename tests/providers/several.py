"""Two simulated providers in one workspace."""

from __future__ import annotations

import msgspec

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.testing.builders import SMALL

LARGE: NodeType = msgspec.structs.replace(SMALL, node_type_id="large", num_cores=8.0, memory_mb=16_384)


class Second(SimulatedProvider):
    """Another one, which may reach the nodes of the first (`network`), and outlive the server."""

    name = "second"
    ends_with_server = False


class First(SimulatedProvider):
    """With a network that others may be on."""


def two(*, network: str = "") -> tuple[First, Second]:
    """The first offers SMALL, the second SMALL, in vain, and LARGE."""
    first, second = First(node_types=[SMALL]), Second(node_types=[SMALL, LARGE])
    first.network = second.network = network
    return first, second


def fleet(*, network: str = "") -> Providers:
    return Providers(*two(network=network))
