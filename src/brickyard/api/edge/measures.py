"""Counts and durations of requests, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_NAMES = (*map(str, _BUCKETS), "+Inf")


class RequestMetrics(Collector):
    """One histogram, whose count is the number of requests. It counts by itself: for one event loop, and so without locks, that
    takes a third of the time of the library's histogram."""

    def __init__(self, *, registry: CollectorRegistry) -> None:
        self._counts: dict[tuple[str, int], list[int]] = {}  # per bucket
        self._seconds: dict[tuple[str, int], float] = {}
        registry.register(self)

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Records one request."""
        key = operation, status
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * len(_NAMES)
            self._seconds[key] = 0.0
        counts[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[key] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The histogram as it is now."""
        family = HistogramMetricFamily(
            "brickyard_http_request_duration_seconds",
            "Time from a request's first byte to its answer's last",
            labels=("operation", "status"),
        )
        for key, counts in list(self._counts.items()):
            buckets = list(zip(_NAMES, accumulate(counts), strict=True))
            family.add_metric((key[0], str(key[1])), buckets, sum_value=self._seconds[key])
        yield family
