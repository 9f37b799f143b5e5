"""Node types: the machine's own sizes, and well-known cloud types from `data/node_types.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from brickyard.domain.nodetypes import NodeType
from brickyard.machine.gpus import Gpu

_DATA = Path(__file__).parent / "data" / "node_types.toml"
SMALL_MB, MEDIUM_MB = 2_048, 4_096


@functools.cache
def cloud_types() -> tuple[NodeType, ...]:
    """The clouds' types, smallest first."""
    found = [_row(family, row) for family in tomllib.loads(_DATA.read_text())["family"] for row in family["types"]]
    found.sort(key=lambda each: (each.num_gpus, each.num_cores, each.memory_mb, each.node_type_id))
    return tuple(found)


def machine_types(*, cores: int, memory_mb: int, gpus: int = 0, gpu_model: str = "") -> tuple[NodeType, ...]:
    """Sizes of this machine: two small ones, of which several fit side by side, and the whole machine."""
    whole = f"This machine: {cores} cores, {memory_mb / 1024:.0f} GiB" + (f", {gpus} x {gpu_model}" if gpus else "")
    return (
        _small("brickyard.small", 1, SMALL_MB),
        _small("brickyard.medium", 2, MEDIUM_MB),
        NodeType(
            node_type_id="brickyard.machine",
            num_cores=float(cores),
            memory_mb=memory_mb,
            description=whole,
            category="GPU Accelerated" if gpus else "General Purpose",
            num_gpus=gpus,
            gpu_model=gpu_model,
            local_disks=1,
            local_disk_size_gb=100,
            display_order=3,
        ),
    )


def offered(gpus: Sequence[Gpu] = ()) -> tuple[NodeType, ...]:
    """The types that the local provider offers on a machine with these GPUs. A cloud's GPU types are included only if the machine
    has that many, and have the machine's model."""
    count, model = len(gpus), gpus[0].model if gpus else ""
    own = machine_types(
        cores=psutil.cpu_count() or 1, memory_mb=psutil.virtual_memory().total // 2**20, gpus=count, gpu_model=model
    )
    return own + tuple(_with_model(each, model) for each in cloud_types() if each.num_gpus <= count)


def _with_model(cloud: NodeType, model: str) -> NodeType:
    if not cloud.num_gpus:
        return cloud
    description = cloud.description.replace(cloud.gpu_model, model)
    return msgspec.structs.replace(cloud, gpu_model=model, description=description)


def _small(name: str, cores: int, memory_mb: int) -> NodeType:
    return NodeType(
        node_type_id=name,
        num_cores=float(cores),
        memory_mb=memory_mb,
        category="General Purpose",
        description=f"{cores} core{'s' if cores > 1 else ''}, {memory_mb // 1024} GiB of this machine",
        local_disks=1,
        local_disk_size_gb=20,
        display_order=cores,
    )


def _row(family: dict[str, Any], row: list[Any]) -> NodeType:
    name, cores, memory_gib, disks, disk_gb, gpus, price = row
    return NodeType(
        node_type_id=name,
        num_cores=float(cores),
        memory_mb=int(memory_gib * 1024),
        category=family["category"],
        description=f"{cores} cores, {memory_gib:g} GiB" + (f", {gpus} x {family['gpu']}" if gpus else ""),
        cloud=family["cloud"],
        num_gpus=gpus,
        gpu_model=family.get("gpu", ""),
        local_disks=disks,
        local_disk_size_gb=disk_gb,
        is_graviton=family.get("graviton", False),
        is_deprecated=family.get("deprecated", False),
        price_per_hour=price,
        display_order=10,
    )
