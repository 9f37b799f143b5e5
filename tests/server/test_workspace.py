"""Which workspace a server belongs to, whatever its database and its storage knew before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import requests
from sqlalchemy import create_engine, inspect

from brickyard.config.settings import Settings
from brickyard.domain.clock import Ids
from brickyard.server import workspace
from brickyard.server.adoption import Declined, Offer, adopt
from brickyard.server.datadir import Workspace
from brickyard.server.workspace import join
from brickyard.storage.directory import Storage, StorageInUse
from brickyard.storage.private import WorkspaceError
from brickyard.store.store import Store
from tests.support.databases import both_databases, empty_sqlite
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import Server

SERVERS = 4


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Store]:
    """A database of which no server knows."""
    store = Store.open(f"sqlite:///{tmp_path / 'fresh.db'}")
    yield store
    store.close()


@both_databases
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


def test_database_and_storage_of_different_workspaces_are_refused(
    store: Store, fresh: Store, tmp_path: Path, golden: Golden
) -> None:
    ours, theirs = Storage(tmp_path / "ours"), Storage(tmp_path / "theirs")
    number = join(store, ours, Ids(), shared=False)
    other = join(fresh, theirs, Ids(), shared=False)
    ours.close()
    theirs.close()
    with golden.refused(WorkspaceError, f"workspace {number}", "theirs ", other, ours=str(number), theirs=str(other)):
        join(store, theirs, Ids(), shared=False)
    theirs.close()
    assert join(store, ours, Ids(), shared=False) == number
    ours.close()


@pytest.mark.parametrize(
    "left", ["workspace.id", "workspace.key", "admin-token", "clusters/c/scratch/f", "snapshots/manifests/m"]
)
def test_a_storage_that_a_workspace_has_used_is_not_taken_by_a_new_database(store: Store, tmp_path: Path, left: str) -> None:
    place = tmp_path / "storage"
    (place / left).parent.mkdir(parents=True)
    (place / left).write_text("1234567890123456\n")
    before = sorted(place.rglob("*"))
    storage = Storage(place)
    with pytest.raises(WorkspaceError, match=f"(?s){re.escape(str(place))}.*adopt-storage"):
        join(store, storage, Ids(), shared=False)
    storage.close()
    assert sorted(path for path in place.rglob("*") if path.name != "storage.lock") == before
    assert store.read_sync(lambda tx: tx.get_meta(workspace.ID)) is None


def test_files_alone_do_not_make_a_workspace(store: Store, tmp_path: Path) -> None:
    """Somebody may put them there before the first start."""
    for name in ("dbfs/f", "volumes/c/s/v/f", "workspace/f"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "clusters").mkdir()
    storage = Storage(tmp_path)
    assert join(store, storage, Ids(), shared=False) == storage.workspace_id()
    storage.close()


@both_databases
def test_a_database_is_not_made_where_a_workspace_has_lost_its_own(bare_url: str, tmp_path: Path) -> None:
    """So that a backup can be restored in its place."""
    place = tmp_path / "storage"
    place.mkdir()
    (place / "workspace.id").write_text("1234567890123456\n")
    with pytest.raises(WorkspaceError):
        Store.open(bare_url, creates=lambda: workspace.check_new(bare_url, Storage(place)))
    engine = create_engine(bare_url.replace("postgresql://", "postgresql+psycopg://"))
    assert inspect(engine).get_table_names() == []
    engine.dispose()
    file = f"sqlite:///{tmp_path / 'brickyard.db'}"
    for exists in (False, True):
        if exists:
            (tmp_path / "brickyard.db").touch()
        with pytest.raises(WorkspaceError):
            workspace.check_file(file, Storage(place))
        assert (tmp_path / "brickyard.db").exists() is exists


def test_a_storage_without_the_workspace_that_the_database_knows_is_refused(store: Store, tmp_path: Path) -> None:
    """Its disk is not mounted, for example: keys and tokens would be made anew, and files written below the mount."""
    ours, empty = Storage(tmp_path / "ours"), Storage(tmp_path / "empty")
    number = join(store, ours, Ids(), shared=False)
    ours.close()
    with pytest.raises(WorkspaceError, match=number):
        join(store, empty, Ids(), shared=False)
    empty.close()
    assert [path.name for path in empty.root.iterdir()] == ["storage.lock"]
    (ours.root / "workspace.key").rename(tmp_path / "key")
    with pytest.raises(WorkspaceError, match=r"workspace\.key"):
        join(store, ours, Ids(), shared=False)
    assert not ours.has_key
    (tmp_path / "key").rename(ours.root / "workspace.key")
    assert join(store, ours, Ids(), shared=False) == number
    ours.close()


@pytest.mark.parametrize("step", range(3))
def test_a_server_that_is_killed_while_it_makes_a_workspace_is_followed_by_another(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> str:
        raise Killed

    storage = Storage(tmp_path)
    with monkeypatch.context() as patched:
        if step == 0:
            patched.setattr(storage, "belong_to", killed)
        elif step == 1:
            patched.setattr(workspace, "settle", killed)
        else:
            belong_to = storage.belong_to
            patched.setattr(storage, "belong_to", lambda number: killed(belong_to(number)))
        with pytest.raises(Killed):
            join(store, storage, Ids(), shared=False)
    storage.close()
    assert store.read_sync(lambda tx: tx.get_meta(workspace.ID)) is None
    begun = storage.workspace_id()
    number = join(store, storage, Ids(), shared=False)
    assert number == storage.workspace_id() and begun in ("", number)
    storage.close()


def test_a_server_with_a_database_of_its_own_does_not_come_to_the_storage_of_others(
    store: Store, fresh: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """It would know none of their nodes, and end them."""
    monkeypatch.setattr(workspace, "PATIENCE_S", 0.2)
    theirs, second, stranger = Storage(tmp_path), Storage(tmp_path), Storage(tmp_path)
    number = join(store, theirs, Ids(), shared=True)
    assert join(store, second, Ids(), shared=True) == number
    for shared in (True, False):
        with golden.refused(StorageInUse, "database_url"):
            join(fresh, stranger, Ids(), shared=shared)
    theirs.close()
    second.close()
    with pytest.raises(WorkspaceError, match=number):
        join(fresh, stranger, Ids(), shared=False)
    stranger.close()


def test_a_server_whose_storage_is_gone_is_not_ready(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    with Server.running(tmp_path / "data", provider="simulated", storage_url=str(storage)) as server:
        assert requests.get(f"{server.url}/readyz", timeout=PATIENCE_S).status_code == 200
        storage.rename(tmp_path / "unmounted")
        answer = requests.get(f"{server.url}/readyz", timeout=PATIENCE_S)
        assert (answer.status_code, str(storage) in answer.json()["reason"]) == (503, True)
        (tmp_path / "unmounted").rename(storage)
        assert requests.get(f"{server.url}/readyz", timeout=PATIENCE_S).status_code == 200


@pytest.mark.parametrize("lost", ["database", "schema alone", "workspace.id", "workspace.key"])
def test_what_is_left_of_a_workspace_is_joined_when_somebody_agrees(tmp_path: Path, lost: str) -> None:
    settings, file, place = Settings(data_dir=tmp_path), tmp_path / "brickyard.db", Storage(tmp_path)
    url = empty_sqlite(file)

    def started() -> str:
        store = Store.open(url)
        try:
            return join(store, place, Ids(), shared=False)
        finally:
            place.close()
            store.close()

    number = started()
    if lost == "database":
        file.unlink()
    elif lost == "schema alone":
        empty_sqlite(file)
    else:
        (tmp_path / lost).unlink()
    index = tmp_path / "brickyard.db-shm"  # which SQLite makes anew for each that opens the database
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path != index}
    offers: list[Offer] = []

    def decline(offer: Offer) -> bool:
        offers.append(offer)
        return False

    with pytest.raises(Declined):
        adopt(settings, Workspace(tmp_path), decline)
    found = {path: path.read_bytes() for path in tmp_path.rglob("*") if path != index}
    after = {path: data for path, data in found.items() if path in before or not path.name.endswith(".lock")}
    assert after == before
    assert any("workspace.key" in line or "tokens" in line for line in offers[0].lost) is (lost != "workspace.id")
    assert adopt(settings, Workspace(tmp_path), lambda _: True) == number == started()
    with pytest.raises(WorkspaceError):
        adopt(settings, Workspace(tmp_path), lambda _: True)
