"""Counts and durations of requests, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RequestMetrics:
    """One histogram, whose count is the number of requests. Its children are cached: a lookup costs more than an update."""

    def __init__(self, *, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "brickyard_http_request_duration_seconds",
            "Time from a request's first byte to its answer's last",
            ("operation", "status"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._children: dict[tuple[str, int], Histogram] = {}

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Records one request."""
        child = self._children.get((operation, status))
        if child is None:
            child = self._children[operation, status] = self._seconds.labels(operation, str(status))
        child.observe(seconds)
