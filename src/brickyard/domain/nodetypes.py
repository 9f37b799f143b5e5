"""Node types: what sizes of machine a provider offers."""

from __future__ import annotations

import msgspec


class NodeType(msgspec.Struct, frozen=True, kw_only=True):
    """One size of machine. Every field has a value: clients sort by them and cannot sort None (see `select_node_type`).

    `price_per_hour` is in US dollars, for estimates only. Disk sizes are GiB, memory is MiB.
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
