"""Which workspace a server belongs to, whatever its database and its storage knew before."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from brickyard.domain.clock import Ids
from brickyard.server import workspace
from brickyard.server.workspace import join
from brickyard.storage.directory import Storage, StorageInUse
from brickyard.storage.private import WorkspaceError
from brickyard.store.store import Store
from tests.support.patience import PATIENCE_S

SERVERS = 4


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Store]:
    """A database of which no server knows."""
    store = Store.open(f"sqlite:///{tmp_path / 'fresh.db'}")
    yield store
    store.close()


def test_servers_that_start_side_by_side_are_one_workspace(bare_url: str, tmp_path: Path) -> None:
    stores = [Store.open(bare_url) for _ in range(SERVERS)]
    storages = [Storage(tmp_path) for _ in range(SERVERS)]
    together = Barrier(SERVERS)

    def start(number: int) -> str:
        together.wait(PATIENCE_S)
        return join(stores[number], storages[number], Ids(), shared=True)

    try:
        with ThreadPoolExecutor(SERVERS) as threads:
            found = set(threads.map(start, range(SERVERS)))
        assert found == {storages[0].workspace_id()}
        (number,) = found
        assert len(number) == 16
    finally:
        for storage in storages:
            storage.close()
        for store in stores:
            store.close()


def test_database_and_storage_of_different_workspaces_are_refused(store: Store, fresh: Store, tmp_path: Path) -> None:
    ours, theirs = Storage(tmp_path / "ours"), Storage(tmp_path / "theirs")
    number = join(store, ours, Ids(), shared=False)
    other = join(fresh, theirs, Ids(), shared=False)
    ours.close()
    theirs.close()
    with pytest.raises(WorkspaceError, match=f"belongs to workspace {number}, and the storage .*theirs to {other}"):
        join(store, theirs, Ids(), shared=False)
    theirs.close()
    assert join(store, ours, Ids(), shared=False) == number
    ours.close()


def test_an_installation_from_before_gets_the_file_and_an_empty_database_the_number(
    store: Store, fresh: Store, tmp_path: Path
) -> None:
    storage = Storage(tmp_path)
    number = join(store, storage, Ids(), shared=False)
    (tmp_path / "workspace.id").unlink()  # as it was before there was one
    assert join(store, storage, Ids(), shared=False) == number == storage.workspace_id()
    storage.close()
    assert join(fresh, storage, Ids(), shared=False) == number  # the database was begun anew
    storage.close()


def test_a_server_with_a_database_of_its_own_does_not_come_to_the_storage_of_others(
    store: Store, fresh: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would know none of their nodes, and end them."""
    monkeypatch.setattr(workspace, "PATIENCE_S", 0.2)
    theirs, second, stranger = Storage(tmp_path), Storage(tmp_path), Storage(tmp_path)
    number = join(store, theirs, Ids(), shared=True)
    assert join(store, second, Ids(), shared=True) == number
    for shared in (True, False):
        with pytest.raises(StorageInUse, match="the same database_url"):
            join(fresh, stranger, Ids(), shared=shared)
    theirs.close()
    second.close()
    assert join(fresh, stranger, Ids(), shared=False) == number
    stranger.close()
