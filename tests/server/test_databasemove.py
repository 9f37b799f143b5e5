"""A workspace's database moves from SQLite to PostgreSQL whole, whenever that is interrupted, and has one owner at most."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Engine,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    create_engine,
    event,
    insert,
    select,
)

from brickyard.config.settings import Settings
from brickyard.domain.clock import Ids
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.server import workspace
from brickyard.server.databasemove import move_database
from brickyard.server.datadir import Workspace
from brickyard.storage.directory import Storage
from brickyard.storage.private import WorkspaceError
from brickyard.store import tablecopy
from brickyard.store.opening import StoreError
from brickyard.store.postgres import driver_url
from brickyard.store.store import Store
from brickyard.store.tablecopy import TABLES
from brickyard.store.tables import meta
from tests.support.databases import empty_sqlite
from tests.support.golden import Golden
from tests.support.postgres import Postgres

MANY = 600  # rows: more than a part


class Killed(BaseException):
    """The process ends here."""


class World:
    """A workspace on SQLite with rows in every table, and a database to move to."""

    def __init__(self, place: Path, url: str) -> None:
        self.settings = Settings(data_dir=place, database_url=url)
        self.old = empty_sqlite(place / "brickyard.db")
        self.new = url
        self.id = self.joined(self.old)
        engine = create_engine(self.old)
        with engine.begin() as connection:
            for table in TABLES:
                rows = [row_of(table, number) for number in range(MANY if table.name in ("events", "clusters") else 3)]
                connection.execute(insert(table), rows)
        engine.dispose()

    def joined(self, url: str) -> str:
        """The id of the workspace that a server has on that database. Raises WorkspaceError if it does not start."""
        storage = Storage(self.settings.storage_dir)
        store = Store.open(url, creates=lambda: workspace.check_new(url, storage))
        try:
            return workspace.join(store, storage, Ids(), shared=False)
        finally:
            storage.close()
            store.close()

    def owners(self) -> list[str]:
        """The databases on which a server would start."""
        found = []
        for url in (self.old, self.new):
            store = Store.open(url)
            with contextlib.suppress(WorkspaceError):
                if store.read_sync(workspace.known_by) is not None:
                    found.append(url)
            store.close()
        return found

    def move(self) -> int:
        return move_database(self.settings, Workspace(self.settings.data_dir), lambda _: None, lambda _: None)


def row_of(table: Table, number: int) -> dict[str, Any]:
    """A row with something in every column."""
    row: dict[str, Any] = {}
    for column in table.columns:
        kind = column.type
        if isinstance(kind, Boolean):
            row[column.name] = number % 2 == 0
        elif isinstance(kind, SmallInteger):
            row[column.name] = number % 100
        elif isinstance(kind, Integer | BigInteger):
            row[column.name] = (number + 1) * (10**12 if column.name.endswith("_ms") else 1)
        elif isinstance(kind, LargeBinary):
            row[column.name] = bytes([number % 256, 0, 255])
        else:
            row[column.name] = f"{column.name[:6]} {number} é'\\"[: getattr(kind, "length", None) or 99]
    return row


def contents(url: str) -> dict[str, set[tuple[Any, ...]]]:
    engine = create_engine(driver_url(url))
    with engine.connect() as connection:
        found = {table.name: {tuple(row) for row in connection.execute(select(table))} for table in TABLES}
    engine.dispose()
    found[meta.name] = {row for row in found[meta.name] if not row[0].startswith(("workspace_", "schema_", "probe"))}
    return found


@contextlib.contextmanager
def commits(handle: Callable[[int], None]) -> Iterator[None]:
    """Calls `handle` with the number of each commit, on either database, before it."""
    count = 0

    def before(_: Any) -> None:
        nonlocal count
        count += 1
        handle(count)

    event.listen(Engine, "commit", before)
    try:
        yield
    finally:
        event.remove(Engine, "commit", before)


@pytest.fixture
def world(tmp_path: Path, postgres: Postgres) -> World:
    return World(tmp_path, postgres.new_database())


def test_every_row_is_there_and_new_rows_are_numbered_after_them(world: World) -> None:
    before = contents(world.old)
    assert all(before.values()), "each table has rows"
    moved = world.move()
    assert contents(world.new) == before
    assert moved == sum(map(len, before.values()))
    assert world.owners() == [world.new]
    with pytest.raises(WorkspaceError, match="database_url"):
        world.joined(world.old)
    assert world.joined(world.new) == world.id
    store = Store.open(world.new)
    one = ClusterEvent(cluster_id="c", timestamp=1, type=EventType.PINNED)
    store.write_sync(lambda tx: tx.events.append(one))
    store.close()
    assert world.move() == 0, "it is done, and a server has written since"
    assert len(contents(world.new)["events"]) == MANY + 1


def test_it_is_killed_before_any_commit_and_goes_on(world: World, tmp_path: Path, postgres: Postgres) -> None:
    (other := tmp_path / "other").mkdir()
    made: list[int] = []
    unhindered = World(other, postgres.new_database())
    with commits(made.append):
        unhindered.move()
    before = contents(world.old)

    def kill(at: int) -> Callable[[int], None]:
        def handle(number: int) -> None:
            if number == at:
                raise Killed

        return handle

    last = made[-1] - 2  # a copy that goes on begins with two fewer
    for at in [*range(1, 5), *range(5, last - 1, 12)]:
        with commits(kill(at)), pytest.raises(Killed):
            world.move()
        assert world.owners() == [world.old]
    for at in (last - 1, last):  # the old database is nobody's, the new one is the workspace's
        with commits(kill(at)), pytest.raises(Killed):
            world.move()
        assert world.owners() == ([world.old] if at < last else [])
        with pytest.raises(WorkspaceError, match="migrate-database"):
            world.joined(world.new)
    assert contents(world.old) == before
    world.move()
    assert world.owners() == [world.new]
    assert contents(world.new) == before


def test_what_a_server_has_written_in_between_is_moved_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(tablecopy.TableCopy, "compare", lambda _: raise_killed())
        world.move()
    assert world.joined(world.old) == world.id, "a server starts on it until all is moved"
    store = Store.open(world.old)
    store.write_sync(lambda tx: tx.clusters.remember("late", purged_ms=1))
    store.write_sync(lambda tx: tx.policies.delete("policy 0 é'\\"))
    store.close()
    after = contents(world.old)
    world.move()
    assert contents(world.new) == after


def raise_killed() -> int:
    raise Killed


def test_a_copy_that_differs_is_not_handed_over(world: World, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    compare = tablecopy.TableCopy.compare

    def spoilt(copy: Any) -> int:
        copy._target.execute(meta.insert().values(key="strange", value=""))
        return compare(copy)

    with monkeypatch.context() as patched, golden.refused(StoreError):
        patched.setattr(tablecopy.TableCopy, "compare", spoilt)
        world.move()
    assert world.owners() == [world.old]
    world.move()
    assert world.owners() == [world.new]


def test_what_it_cannot_move_or_must_not_is_refused(world: World, tmp_path: Path, postgres: Postgres) -> None:
    def refused(reason: str, database_url: str = world.new, data_dir: Path = tmp_path) -> None:
        with pytest.raises((WorkspaceError, StoreError), match=reason):
            move_database(
                Settings(data_dir=data_dir, database_url=database_url), Workspace(data_dir), lambda _: None, lambda _: None
            )

    refused("database_url", "")
    refused("database_url", f"sqlite:///{tmp_path / 'other.db'}")
    (empty := tmp_path / "empty").mkdir()
    refused("no SQLite database", data_dir=empty)
    running = Workspace(tmp_path)
    running.lock()
    refused("brickyard down")
    running.unlock()
    theirs = postgres.new_database()
    store, storage = Store.open(theirs), Storage(tmp_path / "theirs")
    number = workspace.join(store, storage, Ids(), shared=True)
    storage.close()
    store.close()
    refused(number, theirs)
    engine = create_engine(world.old)
    with engine.begin() as connection:
        connection.execute(meta.insert().values(key="nul", value="a\0b"))  # no text of PostgreSQL
    engine.dispose()
    refused("table meta")
    assert world.owners() == [world.old]
