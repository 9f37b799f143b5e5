"""Room on one machine: its total, what its instances use, and the messages for running out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from brickyard.domain.nodetypes import NodeType
from brickyard.machine import measure
from brickyard.machine.disk import Amount
from brickyard.providers.base import CapacityError, TransientError

GIB = 1 << 30
NODE = Amount(4 << 20, 500)  # of the disk: what a node makes before it runs anything of a user


class Hardware(msgspec.Struct, frozen=True):
    """An amount of cores, memory and GPUs. Cores are logical, memory is MiB."""

    cores: float
    memory_mb: int
    gpus: int = 0

    @classmethod
    def of(cls, node_type: NodeType, machine: Hardware) -> Hardware:
        """What one node of this type takes. Its memory is capped at the machine's, since it can use no more."""
        return cls(node_type.num_cores, min(node_type.memory_mb, machine.memory_mb), node_type.num_gpus)

    @property
    def text(self) -> str:
        """For people: "4 cores and 30.5 GiB", "8 cores, 61 GiB and 1 GPU"."""
        parts = [f"{self.cores:g} core{'' if self.cores == 1 else 's'}", f"{round(self.memory_mb / 1024, 1):g} GiB"]
        if self.gpus:
            parts.append(f"{self.gpus} GPU{'' if self.gpus == 1 else 's'}")
        return f"{', '.join(parts[:-1])} and {parts[-1]}"

    def without(self, used: Iterable[Hardware]) -> Hardware:
        """What is left; never below zero."""
        left = self
        for each in used:
            left = Hardware(left.cores - each.cores, left.memory_mb - each.memory_mb, left.gpus - each.gpus)
        return Hardware(max(0.0, left.cores), max(0, left.memory_mb), max(0, left.gpus))

    def holds(self, need: Hardware) -> bool:
        """Whether `need` fits."""
        return need.cores <= self.cores and need.memory_mb <= self.memory_mb and need.gpus <= self.gpus

    def times(self, *, cores: float, memory: float) -> Hardware:
        """This machine with overcommit applied. GPUs are never shared."""
        return Hardware(self.cores * cores, int(self.memory_mb * memory), self.gpus)


def require(node_type: NodeType, *, machine: Hardware, total: Hardware, left: Hardware) -> None:
    """Raises CapacityError unless a node of this type fits into what is left."""
    need = Hardware.of(node_type, machine)
    if left.holds(need):
        return
    if not need.gpus:  # then the message does not mention GPUs
        total, left = Hardware(total.cores, total.memory_mb), Hardware(left.cores, left.memory_mb)
    if not total.holds(need):
        remedy = "Choose a smaller node type, or raise cpu_overcommit/memory_overcommit."
        if need.gpus > total.gpus:
            remedy = "Choose a node type that this machine can hold."
    elif need.gpus > left.gpus:
        remedy = "Terminate a cluster that uses GPUs, or choose another node type."
    else:
        remedy = "Terminate a cluster, choose a smaller node type, or raise cpu_overcommit/memory_overcommit."
    raise CapacityError(
        f"{node_type.node_type_id} needs {need.text}; {left.text} are left of {total.text}. {remedy}",
        asked=need.text,
        left=left.text,
    )


def require_disk(place: Path) -> None:
    """Raises TransientError if the disk of `place` is too full for another node: soon the one that fills it may be ended."""
    disk = measure.disk(place)
    if (lack := disk.lack(NODE)) is not None:
        raise TransientError(
            f"the disk of {place} is full: {disk.left(lack)}, and a node needs {NODE.text(lack)} to start. Delete files, "
            "terminate a cluster that holds many, or enlarge the disk."
        )


def allowance(asked_gb: float | None, place: Path) -> int:
    """How many bytes of `place`'s disk one part of the workspace may take: the setting, or half of the disk."""
    return int(asked_gb * GIB) if asked_gb is not None else shutil.disk_usage(place).total // 2


def this_machine(*, gpus: int = 0) -> Hardware:
    """The cores and memory available to this process."""
    return Hardware(float(len(os.sched_getaffinity(0))), _memory_mb(), gpus)


def _memory_mb() -> int:
    """The machine's memory, or the container's limit if that is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue  # that version is not mounted, or the limit is "max"
    return total >> 20
