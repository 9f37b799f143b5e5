"""What `/metrics` says of the workspace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from brickyard.domain.clock import SystemClock
from brickyard.domain.samples import Sample
from brickyard.nodes.samples import Samples
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.reconcile.room import DiskRoom
from brickyard.server.metrics import WorkspaceMetrics
from brickyard.server.sparkmetrics import MOST_CLUSTERS, families, shown
from brickyard.storage.directory import Storage
from brickyard.store.servers import About, Server, Stopping
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL, cluster
from tests.support.databases import empty_sqlite
from tests.support.members import SetMembers
from tests.support.patience import PATIENCE_S

ABOUT = About(host="here", version="1")
SERVERS = tuple(
    Server(number=number, about=ABOUT, started_ms=0, stopping=stopping)
    for number, stopping in enumerate((Stopping.NO, Stopping.NO, Stopping.YES))
)
MANY = 16  # more reads than the store has threads for


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(empty_sqlite(tmp_path / "test.db"))
    yield opened
    opened.close()


def measures(store: Store, place: Path) -> tuple[WorkspaceMetrics, CollectorRegistry]:
    registry = CollectorRegistry()
    room = DiskRoom(store=store, storage=Storage(place), data_dir=place, min_free=0, dbfs_limit=1)
    providers, samples = Providers(SimulatedProvider(node_types=[SMALL])), Samples(store=store, clock=SystemClock())
    made = WorkspaceMetrics(
        store, providers, room, SetMembers(living=list(SERVERS)), lags={"event loop": lambda: 0.5}, samples=samples
    )
    registry.register(made)
    return made, registry


async def test_counts_are_read_on_the_stores_threads(store: Store, tmp_path: Path) -> None:
    """They wait their turn behind other reads, and block nothing else meanwhile."""

    made, registry = measures(store, tmp_path)
    await store.write(lambda tx: tx.clusters.insert(cluster()))
    free = threading.Event()
    try:
        held = [asyncio.create_task(store.read(lambda _: free.wait(PATIENCE_S))) for _ in range(MANY)]
        refreshing = asyncio.create_task(made.refresh())
        done, _ = await asyncio.wait({refreshing}, timeout=0.1)
        assert not done
        assert registry.get_sample_value("brickyard_database_up") == 0
    finally:
        free.set()
    await asyncio.gather(refreshing, *held)
    assert registry.get_sample_value("brickyard_database_up") == 1
    assert registry.get_sample_value("brickyard_clusters", {"state": "PENDING"}) == 1
    assert registry.get_sample_value("brickyard_servers", {"state": "serving"}) == 2
    assert registry.get_sample_value("brickyard_servers", {"state": "stopping"}) == 1
    assert registry.get_sample_value("brickyard_lag_seconds", {"of": "event loop"}) == 0.5


def test_metrics_of_spark_are_bounded_and_leave_out_what_a_driver_does_not_say() -> None:
    values = {"executors": 2.0, "tasks_active": 3.0, "tasks_waiting": 4.0, "heap_bytes": 5.0, "gc_fraction": 0.5}
    values |= {"tasks_done_per_s": 6.0, "cpu_cores": 1.0}
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families({"a": Sample(1, values), "b": Sample(1, {"tasks_active": 1.0})}, left_out=7)
        for sample in family.samples
    }
    assert found == {
        ("brickyard_spark_tasks", "a", "running"): 3.0,
        ("brickyard_spark_tasks", "a", "waiting"): 4.0,
        ("brickyard_spark_tasks", "b", "running"): 1.0,
        ("brickyard_spark_executors", "a"): 2.0,
        ("brickyard_spark_tasks_per_second", "a"): 6.0,
        ("brickyard_spark_driver_heap_bytes", "a"): 5.0,
        ("brickyard_spark_driver_gc_fraction", "a"): 0.5,
        ("brickyard_spark_clusters", "true"): 2.0,
        ("brickyard_spark_clusters", "false"): 7.0,
    }
    many = [f"{number:05}" for number in range(MOST_CLUSTERS + 3)]
    assert shown(many[::-1]) == many[3:], "the newest"
