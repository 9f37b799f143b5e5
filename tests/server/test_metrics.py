"""What `/metrics` says of the workspace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.reconcile.room import DiskRoom
from brickyard.server.metrics import WorkspaceMetrics
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
    providers = Providers(SimulatedProvider(node_types=[SMALL]))
    made = WorkspaceMetrics(store, providers, room, SetMembers(living=list(SERVERS)), {"event loop": lambda: 0.5})
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
