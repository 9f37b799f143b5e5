"""Settings that every engine's section has, and the node types that an administrator names there."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from brickyard.domain.nodetypes import NodeType


class NamedType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node type in the file of settings: [[ray.node_types]]. Memory is MiB. `engine`: what else the engine is asked for, in
    its own words (a Ray resource, a Kubernetes pod template, options of sbatch); each provider documents its keys."""

    node_type_id: str
    num_cores: float
    memory_mb: int
    num_gpus: int = 0
    gpu_model: str = ""
    category: str = ""
    description: str = ""
    price_per_hour: float = 0.0
    engine: dict[str, object] = {}


class EngineSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of an engine. A provider derives its own from it. Paths are absolute, on the engine's machines."""

    machine_dir: str = ""  # for instances and what they share; only the user who runs them may use it; empty: in /var/tmp
    machine_cache_dir: str = ""  # runtimes: one directory of each machine, or one that all of them mount; empty: in machine_dir
    machine_storage_dir: str = ""  # where machines mount the workspace's storage; empty: where the server has it
    node_types: tuple[NamedType, ...] = ()  # in addition to those that the engine says it has

    @property
    def machine_place(self) -> str:
        """`machine_dir` or its default. The user is the same on all machines, as they share the storage's files."""
        return self.machine_dir or f"/var/tmp/brickyard-{os.geteuid()}"  # noqa: S108 - refused unless it belongs to that user

    def named_types(self) -> Sequence[NodeType]:
        """The node types of the settings, in their order."""
        return tuple(
            NodeType(
                node_type_id=each.node_type_id,
                num_cores=each.num_cores,
                memory_mb=each.memory_mb,
                num_gpus=each.num_gpus,
                gpu_model=each.gpu_model,
                category=each.category or ("GPU Accelerated" if each.num_gpus else "General Purpose"),
                description=each.description or f"{each.num_cores:g} cores, {each.memory_mb / 1024:g} GiB",
                price_per_hour=each.price_per_hour,
                display_order=index,
            )
            for index, each in enumerate(self.node_types)
        )
