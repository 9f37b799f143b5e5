"""What a cluster uses, over a window of time. A GB has 2^30 bytes and an MB 2^20, as `memory_gb` does."""

from __future__ import annotations

from enum import StrEnum

import msgspec

_HOUR_MS = 3_600_000


class MetricsWindow(StrEnum):
    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def ms(self) -> int:
        return {"1h": 1, "6h": 6, "24h": 24, "7d": 168}[self.value] * _HOUR_MS


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """`current`: now; null without a node that can measure it. `average` and `maximum`: of the means of the window's sixtieths;
    null without samples."""

    current: float | None
    average: float | None
    maximum: float | None


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """Of all nodes: utilization averaged, temperature of the hottest, the others summed up."""

    utilization_percent: Measure
    memory_used_gb: Measure
    temperature_celsius: Measure
    power_watts: Measure


class CpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """`cores`: of the nodes that run now."""

    cores: int
    cores_used: Measure
    utilization_percent: Measure


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    total_gb: float
    used_gb: Measure
    utilization_percent: Measure


class StorageUse(msgspec.Struct, frozen=True, kw_only=True):
    used_gb: Measure
    read_mb_per_second: Measure
    written_mb_per_second: Measure


class NetworkUse(msgspec.Struct, frozen=True, kw_only=True):
    """Between the cluster's nodes."""

    received_mb_per_second: Measure
    sent_mb_per_second: Measure


class ClusterUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes`: with a sample of the last seconds, the newest of which is from `timestamp`. `gpu`: null without GPUs."""

    window: MetricsWindow
    timestamp: str | None
    nodes: int
    gpu: GpuUse | None
    cpu: CpuUse
    memory: MemoryUse
    storage: StorageUse
    network: NetworkUse
