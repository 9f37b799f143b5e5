"""What a cluster uses, out of the samples of its nodes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from brickyard.domain.clock import rfc3339
from brickyard.domain.samples import METRICS, NodeAbout
from brickyard.domain.usage import (
    ClusterUsage,
    CpuUse,
    GpuUse,
    Measure,
    MemoryUse,
    MetricsWindow,
    NetworkUse,
    StorageUse,
)

T = TypeVar("T")
STEPS = 60  # in a window
GB, MB = 2**30, 2**20
USED = frozenset(name for name in METRICS if not name.startswith(("tasks", "executor", "gc", "heap")))


class NodeNow(NamedTuple):
    """A node's newest sample."""

    about: NodeAbout
    at_ms: int
    values: Mapping[str, float]


class NodePast(NamedTuple):
    """A node's means of the window's steps, by metric; None for a step without samples."""

    about: NodeAbout
    values: Mapping[str, Sequence[float | None]]


_Join = Callable[[Iterable[float]], float]


class _Use(NamedTuple):
    now: Sequence[NodeNow]
    past: Sequence[NodePast]

    def of(self, metric: str, *, unit: float = 1.0, join: _Join = math.fsum) -> Measure:
        """A metric of all nodes together."""
        current = [each.values[metric] for each in self.now if metric in each.values]
        columns = [each.values[metric] for each in self.past if metric in each.values]
        steps = [[value for value in step if value is not None] for step in zip(*columns, strict=True)]
        return _measure(current, steps, lambda values: join(values) / unit)

    def share(self, metric: str, size: Callable[[NodeAbout], float]) -> Measure:
        """A metric of all nodes in percent of what those nodes have. A step counts the nodes that it has samples of."""
        current = [(each.values[metric], size(each.about)) for each in self.now if metric in each.values]
        columns = [
            [None if value is None else (value, size(each.about)) for value in each.values[metric]]
            for each in self.past
            if metric in each.values
        ]
        steps = [[pair for pair in step if pair is not None] for step in zip(*columns, strict=True)]
        return _measure(current, steps, _percent)


def used(now: Sequence[NodeNow], past: Sequence[NodePast], window: MetricsWindow) -> ClusterUsage:
    """The use of a cluster's nodes. `now`: those with a sample of the last seconds."""
    use = _Use(now, past)
    known = {name for each in now for name in each.values} | {name for each in past for name in each.values}
    return ClusterUsage(
        window=window,
        timestamp=rfc3339(max(each.at_ms for each in now)) if now else None,
        nodes=len(now),
        gpu=_gpu(use) if known & {"gpu_fraction", "gpu_memory_bytes"} else None,
        cpu=CpuUse(
            cores=sum(each.about.cores for each in now),
            cores_used=use.of("cpu_cores"),
            utilization_percent=use.share("cpu_cores", lambda about: about.cores),
        ),
        memory=MemoryUse(
            total_gb=round(sum(each.about.memory_mb for each in now) / 1024, 3),
            used_gb=use.of("memory_bytes", unit=GB),
            utilization_percent=use.share("memory_bytes", lambda about: about.memory_mb * MB),
        ),
        storage=StorageUse(
            used_gb=use.of("disk_bytes", unit=GB),
            read_mb_per_second=use.of("disk_read_bytes_per_s", unit=MB),
            written_mb_per_second=use.of("disk_write_bytes_per_s", unit=MB),
        ),
        network=NetworkUse(
            received_mb_per_second=use.of("network_in_bytes_per_s", unit=MB),
            sent_mb_per_second=use.of("network_out_bytes_per_s", unit=MB),
        ),
    )


def _gpu(use: _Use) -> GpuUse:
    return GpuUse(
        utilization_percent=use.of("gpu_fraction", unit=0.01, join=_mean),
        memory_used_gb=use.of("gpu_memory_bytes", unit=GB),
        temperature_celsius=use.of("gpu_temperature_c", join=max),
        power_watts=use.of("gpu_power_w"),
    )


def _measure(current: Sequence[T], steps: Sequence[Sequence[T]], joined: Callable[[Sequence[T]], float]) -> Measure:
    means = [joined(step) for step in steps if step]
    return Measure(
        current=_round(joined(current)) if current else None,
        average=_round(_mean(means)) if means else None,
        maximum=_round(max(means)) if means else None,
    )


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)


def _percent(pairs: Sequence[tuple[float, float]]) -> float:
    whole = math.fsum(size for _, size in pairs)
    return 100 * math.fsum(value for value, _ in pairs) / whole if whole else 0.0


def _round(value: float) -> float:
    return round(value, 3)
