"""What is decided where a server is put together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from brickyard.domain.clock import Ids
from brickyard.server.assembly import workspace_id
from brickyard.store.store import Store
from tests.support.patience import PATIENCE_S

SERVERS = 4


def test_servers_that_start_side_by_side_are_one_workspace(store_url: str) -> None:
    stores = [Store.open(store_url) for _ in range(SERVERS)]
    together = Barrier(SERVERS)

    def start(store: Store) -> str:
        together.wait(PATIENCE_S)
        return workspace_id(store, Ids())

    try:
        with ThreadPoolExecutor(SERVERS) as threads:
            found = set(threads.map(start, stores))
        assert len(found) == 1
        assert found == {workspace_id(stores[0], Ids())}
        (number,) = found
        assert len(number) == 16
    finally:
        for each in stores:
            each.close()
