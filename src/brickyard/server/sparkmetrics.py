"""Metrics of Spark itself: what drivers of running clusters say of their executors and tasks, as this server has heard last."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from brickyard.domain.samples import Sample

MOST_CLUSTERS = 500  # with series of their own: the newest ones. Each has six
_TASKS = {"running": "tasks_active", "waiting": "tasks_waiting"}
_OF_DRIVERS = (
    ("brickyard_spark_executors", "Workers of a cluster with an executor", "executors"),
    ("brickyard_spark_tasks_per_second", "Tasks that executors of a cluster finished, per second", "tasks_done_per_s"),
    ("brickyard_spark_driver_heap_bytes", "Used heap of a cluster's driver", "heap_bytes"),
    ("brickyard_spark_driver_gc_fraction", "Share of the time that a driver's JVM collected garbage", "gc_fraction"),
)


def shown(clusters: list[str]) -> list[str]:
    """The clusters that have series of their own. Ids begin with the time."""
    return sorted(clusters)[-MOST_CLUSTERS:]


def families(drivers: Mapping[str, Sample], *, left_out: int = 0) -> list[Metric]:
    """Of the newest sample of each driver, by its cluster. What a driver does not say is missing, not zero."""
    tasks = GaugeMetricFamily("brickyard_spark_tasks", "Tasks of a cluster", labels=["cluster_id", "state"])
    for cluster_id, sample in drivers.items():
        for state, name in _TASKS.items():
            if (value := sample.values.get(name)) is not None:
                tasks.add_metric([cluster_id, state], value)
    found: list[Metric] = [tasks]
    for metric, text, name in _OF_DRIVERS:
        family = GaugeMetricFamily(metric, text, labels=["cluster_id"])
        for cluster_id, sample in drivers.items():
            if (value := sample.values.get(name)) is not None:
                family.add_metric([cluster_id], value)
        found.append(family)
    clusters = GaugeMetricFamily("brickyard_spark_clusters", "Clusters whose drivers call this server", labels=["shown"])
    clusters.add_metric(["true"], len(drivers))
    clusters.add_metric(["false"], left_out)
    return [*found, clusters]
