"""Node types: the machine sizes that providers offer, and the catalogue of the types on offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class NodeType(msgspec.Struct, frozen=True, kw_only=True):
    """One machine size. Every field has a value: clients sort by them and cannot sort None (see `select_node_type`).

    `price_per_hour` is a list price in US dollars unless the workspace sets its own (`domain/prices.py`). Disk sizes are GiB,
    memory is MiB.
    """

    node_type_id: str
    num_cores: float
    memory_mb: int
    category: str
    description: str = ""
    cloud: str = "LOCAL"  # LOCAL | AWS | AZURE | GCP
    num_gpus: int = 0
    gpu_model: str = ""
    local_disks: int = 0
    local_disk_size_gb: int = 0
    local_nvme_disks: int = 0
    local_nvme_disk_size_gb: int = 0
    is_graviton: bool = False
    is_deprecated: bool = False
    price_per_hour: float = 0.0
    display_order: int = 0
    provider: str = ""  # the name of the provider that it belongs to; the workspace fills this in
    network: str = ""  # nodes whose types have the same one reach each other; the workspace fills this in


class Offer(NamedTuple):
    """What one provider offers."""

    provider: str
    network: str
    node_types: Sequence[NodeType]


class Merged(NamedTuple):
    """What a workspace offers. `hidden`: by a provider's name, the ids that it offers in vain, each with who has it."""

    node_types: tuple[NodeType, ...]
    hidden: Mapping[str, Mapping[str, str]]


def merged(offers: Sequence[Offer]) -> Merged:
    """The node types of all providers. Each belongs to one: the first that offers its id."""
    found: dict[str, NodeType] = {}
    hidden: dict[str, dict[str, str]] = {}
    for offer in offers:
        for each in offer.node_types:
            first = found.get(each.node_type_id)
            if first is None:
                found[each.node_type_id] = msgspec.structs.replace(each, provider=offer.provider, network=offer.network)
            elif first.provider != offer.provider:
                hidden.setdefault(offer.provider, {})[each.node_type_id] = first.provider
    return Merged(tuple(found.values()), hidden)


class NodeTypes(Protocol):
    """The node types on offer now: the same object until they change."""

    def __call__(self) -> Sequence[NodeType]: ...


class Catalogue:
    """The node types on offer, by id. The provider is asked on every call because types come and go; `now` returns the same
    object until they change."""

    def __init__(self, ask: NodeTypes) -> None:
        self._ask = ask
        self._known: tuple[tuple[NodeType, ...], Mapping[str, NodeType]] = ((), {})

    def now(self) -> Mapping[str, NodeType]:
        """Every type on offer, in the provider's order."""
        offered = tuple(self._ask())
        known, by_id = self._known
        if offered is not known and offered != known:
            by_id = {node_type.node_type_id: node_type for node_type in offered}
            self._known = (offered, by_id)
        return by_id
