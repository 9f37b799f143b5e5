"""Made-up samples of simulated nodes: plausible, and marked as simulated."""

from __future__ import annotations

import math
import zlib
from array import array

from brickyard.domain.node import Load
from brickyard.domain.packedsamples import PackedSamples, numbers
from brickyard.domain.samples import NodeAbout, NodeSamples, Sample, as_bytes
from brickyard.providers.simulated.wanted import Wanted

_PERIOD_S = 600.0  # of the slow waves
_MIB = 1 << 20


def simulated_samples(
    instance_id: str, wanted: Wanted, load: Load | None, *, now_s: float, every_s: float = 0.0, count: int = 1
) -> NodeSamples:
    """The last so many samples, the newest of now: waves around what a node of that size and load might use. A pure function of
    its arguments."""
    times = _times(now_s, every_s, count)
    samples = tuple(
        Sample(at_ms, _values(wanted, load, wave)) for at_ms, wave in zip(times, _waves(instance_id, times), strict=True)
    )
    return NodeSamples(cluster_id=wanted.cluster_id, about=_about(wanted), samples=samples)


def simulated_packed(
    instance_id: str, wanted: Wanted, load: Load | None, *, now_s: float, every_s: float, count: int
) -> PackedSamples:
    """The same, packed. Every value changes in proportion to the wave."""
    times = _times(now_s, every_s, count)
    waves = _waves(instance_id, times)
    low, high = _values(wanted, load, 0.0), _values(wanted, load, 1.0)
    return PackedSamples(
        cluster_id=wanted.cluster_id,
        about=_about(wanted),
        times=as_bytes(array("q", times)),
        names=",".join(low),
        numbers=numbers([least + (high[name] - least) * wave for name, least in low.items() for wave in waves]),
    )


def _times(now_s: float, every_s: float, count: int) -> list[int]:
    return [int((now_s - every_s * back) * 1000) for back in range(count - 1, -1, -1)]


def _waves(instance_id: str, times: list[int]) -> list[float]:
    phase = zlib.crc32(instance_id.encode()) / 2**32
    return [0.5 + 0.5 * math.sin(2 * math.pi * (at_ms / 1000 / _PERIOD_S + phase)) for at_ms in times]


def _about(wanted: Wanted) -> NodeAbout:
    return NodeAbout(
        role=wanted.role.value,
        node_type_id=wanted.node_type_id,
        cores=wanted.cores,
        memory_mb=wanted.memory_mb,
        simulated=True,
    )


def _values(wanted: Wanted, load: Load | None, wave: float) -> dict[str, float]:
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
