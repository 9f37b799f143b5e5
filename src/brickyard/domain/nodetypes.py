"""Node types: the machine sizes that a provider offers, and the catalogue of the types on offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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


class Catalogue:
    """The node types on offer, by id. The provider is asked on every call because types come and go; `now` returns the same
    object until they change."""

    def __init__(self, ask: Callable[[], Sequence[NodeType]]) -> None:
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
