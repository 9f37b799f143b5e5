"""Health checks, the ends of logs, and the metrics call of the /v1/clusters dialect."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.usage import ClusterUsage, MetricsWindow


class HealthStatus(StrEnum):
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: driver, spark, workers, disk or ports."""

    name: str
    status: HealthStatus
    message: str


class LogTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a log of the driver's node. `file` names it in `/api/2.1/clusters/logs/read`, which has all of it."""

    file: str
    size: int
    text: str
    running: bool


class GetV1Metrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`metrics_window`: 1h, 6h, 24h or 7d; by default 1h."""

    cluster_id: str
    metrics_window: MetricsWindow = MetricsWindow.HOUR


class V1MetricsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: ClusterUsage
