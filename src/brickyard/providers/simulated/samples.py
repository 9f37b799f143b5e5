"""Made-up samples of simulated nodes: plausible, and marked as simulated."""

from __future__ import annotations

import math
import zlib

from brickyard.domain.node import Assignment, Load
from brickyard.domain.samples import NodeAbout, NodeSamples, Sample

_PERIOD_S = 600.0  # of the slow waves
_MIB = 1 << 20


def simulated_samples(
    instance_id: str, wanted: Assignment, load: Load | None, *, now_s: float, every_s: float = 0.0, count: int = 1
) -> NodeSamples:
    """The last so many samples, the newest of now: waves around what a node of that size and load might use. A pure function of
    its arguments."""
    phase = zlib.crc32(instance_id.encode()) / 2**32
    about = NodeAbout(
        role=wanted.role.value,
        node_type_id=wanted.node_type_id,
        cores=wanted.cores,
        memory_mb=wanted.memory_mb,
        simulated=True,
    )
    times = (now_s - every_s * back for back in reversed(range(count)))
    samples = tuple(Sample(int(at_s * 1000), _values(phase, wanted, load, at_s)) for at_s in times)
    return NodeSamples(cluster_id=wanted.cluster_id, about=about, samples=samples)


def _values(phase: float, wanted: Assignment, load: Load | None, at_s: float) -> dict[str, float]:
    wave = 0.5 + 0.5 * math.sin(2 * math.pi * (at_s / _PERIOD_S + phase))
    tasks = sum(worker.running for worker in load.workers) if load is not None else 0
    busy = min(1.0, 0.05 + 0.1 * wave + (0.6 if tasks else 0.0))
    values = {
        "cpu_cores": busy * wanted.cores,
        "memory_bytes": (0.3 + 0.2 * wave) * wanted.memory_mb * _MIB,
        "disk_bytes": (200 + 100 * wave) * _MIB,
        "disk_read_bytes_per_s": busy * _MIB,
        "disk_write_bytes_per_s": busy * 2 * _MIB,
        "network_in_bytes_per_s": busy * 4 * _MIB,
        "network_out_bytes_per_s": busy * 4 * _MIB,
    }
    if wanted.role.value != "worker":
        values |= {"heap_bytes": 0.5 * values["memory_bytes"], "gc_fraction": 0.02 * busy}
    if load is not None:
        values |= {"executors": len(load.workers), "tasks_active": tasks, "tasks_waiting": load.pending}
    return values
