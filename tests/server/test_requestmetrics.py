"""The histogram of requests, against the library's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from brickyard.api.edge.measures import _BUCKETS, RequestMetrics

NAME = "brickyard_http_request_duration_seconds"
SECONDS = st.one_of(st.floats(0, 60), st.sampled_from(_BUCKETS))


@given(st.lists(st.tuples(st.sampled_from(["clusters.get", "clusters.list"]), st.sampled_from([200, 404]), SECONDS)))
def test_it_says_what_the_librarys_histogram_says(requests: list[tuple[str, int, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    metrics = RequestMetrics(registry=ours)
    histogram = Histogram(
        NAME,
        "Time from a request's first byte to its answer's last",
        ("operation", "status"),
        buckets=_BUCKETS,
        registry=theirs,
    )
    for operation, status, seconds in requests:
        metrics.observe(operation, status, seconds)
        histogram.labels(operation, str(status)).observe(seconds)
    assert _lines(ours) == _lines(theirs)


def _lines(registry: CollectorRegistry) -> list[str]:
    return sorted(line for line in generate_latest(registry).decode().splitlines() if "_created" not in line)
