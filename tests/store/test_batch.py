"""Units that only insert share a transaction and insert together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError, OperationalError

from brickyard.domain.audit import AuditEntry, AuditFilter
from brickyard.domain.errors import DatabaseAway, DatabaseUnsure, TemporarilyUnavailable
from brickyard.store import postgres
from brickyard.store.batch import insert_together
from brickyard.store.changeset import Changes
from brickyard.store.prepared import driver_execute
from brickyard.store.servers import Excluded
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.store.units import Outcome, Unit
from brickyard.testing.builders import cluster
from tests.stateful.faultystore import Faults

Work = Callable[[Tx], Any]


@pytest.fixture
def engine(store_url: str, store: Store) -> Iterator[Engine]:
    """A PostgreSQL database, with tables."""
    if not store_url.startswith("postgres"):
        pytest.skip("SQLite has one writer: all units share transactions there")
    made = postgres.engine(store_url)
    yield made
    made.dispose()


def inserting(cluster_id: str) -> Work:
    return lambda tx: tx.clusters.insert(cluster(cluster_id=cluster_id))


def raising(cluster_id: str) -> Work:
    def work(tx: Tx) -> None:
        tx.clusters.insert(cluster(cluster_id=cluster_id))
        raise RuntimeError(cluster_id)

    return work


def together(engine: Engine, works: Sequence[Work], **options: Any) -> list[Outcome] | None:
    units = [Unit(work, Future(), None, inserts=True) for work in works]
    return insert_together(engine, units, options.get("commit"))


def stored(store: Store, *ids: str) -> set[str]:
    return store.read_sync(lambda tx: tx.clusters.existing(ids))


def test_a_unit_that_raises_is_dropped_alone(engine: Engine, store: Store) -> None:
    outcomes = together(engine, [inserting("a"), raising("b"), inserting("c")])
    assert outcomes is not None
    assert [str(each.error) for each in outcomes] == ["None", "b", "None"]
    assert stored(store, "a", "b", "c") == {"a", "c"}


def test_what_is_kept_back_is_seen(engine: Engine, store: Store) -> None:
    """Rows wait for the end, but whoever reads sees them: the same unit, and the next one."""

    def insert_and_read(tx: Tx) -> set[str]:
        tx.clusters.insert(cluster(cluster_id="b"))
        return tx.clusters.existing(["a", "b"])

    outcomes = together(engine, [inserting("a"), insert_and_read, lambda tx: tx.clusters.get("b")])
    assert outcomes is not None
    assert outcomes[1].result == {"a", "b"} and outcomes[2].result.cluster_id == "b"


def test_what_was_sent_cannot_be_dropped_alone(engine: Engine, store: Store) -> None:
    def insert_read_and_raise(tx: Tx) -> None:
        tx.clusters.insert(cluster(cluster_id="b"))
        assert tx.clusters.existing(["b"])
        raise RuntimeError("b")

    assert together(engine, [inserting("a"), insert_read_and_raise]) is None
    assert not stored(store, "a", "b")


def test_a_unit_that_reads_and_raises_does_not_undo_the_others(engine: Engine, store: Store) -> None:
    def read_and_raise(tx: Tx) -> None:
        assert tx.clusters.existing(["a"])
        tx.clusters.insert(cluster(cluster_id="b"))
        raise RuntimeError("b")

    outcomes = together(engine, [inserting("a"), read_and_raise, inserting("c")])
    assert outcomes is not None and str(outcomes[1].error) == "b"
    assert stored(store, "a", "b", "c") == {"a", "c"}


def test_an_error_of_the_database_is_left_to_each_unit(engine: Engine, store: Store) -> None:
    assert together(engine, [inserting("a"), inserting("b"), inserting("a")]) is None
    assert not stored(store, "a", "b")


def test_nothing_is_stored_unless_the_commit_is(engine: Engine, store: Store) -> None:
    told: list[set[str]] = []

    def excluded(_connection: Connection, changes: Changes) -> None:
        told.append(changes.clusters)
        raise Excluded

    assert together(engine, [inserting("a"), inserting("b")], commit=excluded) is None
    assert told == [{"a", "b"}] and not stored(store, "a", "b")


def test_units_that_may_have_been_committed_are_not_done_again(engine: Engine, store: Store) -> None:
    """The connection is lost after the commit, before its answer."""

    def lost(connection: Connection, _changes: Changes) -> None:
        driver_execute(connection, "COMMIT")
        raise OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))

    outcomes = together(engine, [inserting("a"), raising("b"), inserting("c")], commit=lost)
    assert outcomes is not None
    assert [type(each.error) for each in outcomes] == [OperationalError, RuntimeError, OperationalError]
    assert stored(store, "a", "b", "c") == {"a", "c"}


@pytest.mark.parametrize("inserts", [True, False])
async def test_nobody_is_told_to_repeat_what_may_have_been_committed(
    engine: Engine, store: Store, inserts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is lost during the work, and during the commit."""

    def ends(tx: Tx) -> None:
        tx.clusters.insert(cluster(cluster_id="a"))
        tx.set_meta("a", "1")
        driver_execute(tx._connection, "SELECT pg_terminate_backend(pg_backend_pid())")

    def lost(connection: Connection, _changes: Changes) -> None:
        driver_execute(connection, "COMMIT")
        raise OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))

    with pytest.raises(DatabaseAway):
        await store.write(ends, inserts=inserts)
    await store.check()
    monkeypatch.setattr(store._commits, "commit", lost)
    several = [store.write(inserting(name), inserts=inserts) for name in ("b", "c")]
    assert [type(each) for each in await asyncio.gather(*several, return_exceptions=True)] == [DatabaseUnsure] * 2
    assert stored(store, "a", "b", "c") == {"b", "c"}
    assert not issubclass(DatabaseUnsure, TemporarilyUnavailable)


def test_what_a_disk_may_have_kept_is_not_to_be_repeated_either(tmp_path: Path) -> None:
    """SQLite, whose disk fails before and after each statement of a unit."""
    faults = Faults()
    with faults.installed():
        store = Store.open(f"sqlite:///{tmp_path / 'test.db'}")

        async def scenario() -> None:
            outcomes = set()
            for after in (False, True):
                number = 0
                while faults.raised == number:  # so many statements have failed
                    number += 1
                    name = f"{number}{after}"
                    faults.arm(number, after=after, kind="broken")
                    try:
                        await store.write(lambda tx, name=name: tx.set_meta(name, "1"))  # type: ignore[misc] # bound now
                        told = "done"
                    except DatabaseUnsure:
                        told = "unsure"
                    except DatabaseAway:
                        told = "not done"
                    faults.disarm()
                    there = await store.read(lambda tx, name=name: tx.get_meta(name)) is not None  # type: ignore[misc] # bound now
                    assert told == "unsure" or there == (told == "done"), (number, after)
                    outcomes.add((told, there))
                faults.raised = 0
            assert outcomes == {("not done", False), ("unsure", False), ("unsure", True), ("done", True)}

        asyncio.run(scenario())
        store.close()


def test_each_row_gets_its_id(engine: Engine, store: Store) -> None:
    def entry(operation: str) -> Work:
        return lambda tx: tx.audit.insert(AuditEntry(time=1, operation=operation, status=200))

    outcomes = together(engine, [entry("one"), entry("two"), entry("three")])
    assert outcomes is not None
    entries = store.read_sync(lambda tx: tx.audit.page(AuditFilter(), limit=9)).entries
    assert {each.id: each.operation for each in entries} == dict(
        zip((each.result.id for each in outcomes), ("one", "two", "three"), strict=True)
    )


def test_each_caller_gets_its_own_outcome(store: Store) -> None:
    """Many at once, on both databases: some raise, and two want the same id."""
    works = [inserting(f"c{number}") if number % 5 else raising(f"c{number}") for number in range(60)] + [inserting("c1")]

    async def scenario() -> list[BaseException | None]:
        return list(await asyncio.gather(*(store.write(work, inserts=True) for work in works), return_exceptions=True))

    outcomes = asyncio.run(scenario())
    assert [type(each) for each in outcomes[:60:5]] == [RuntimeError] * 12
    assert sorted(type(each).__name__ for each in (outcomes[1], outcomes[60])) == [IntegrityError.__name__, "NoneType"]
    assert stored(store, *(f"c{number}" for number in range(60))) == {f"c{number}" for number in range(60) if number % 5}


def test_each_caller_gets_the_number_of_its_own_row(store: Store) -> None:
    def entry(number: int) -> Work:
        return lambda tx: tx.audit.insert(AuditEntry(time=number, operation=f"op{number}", status=200))

    async def scenario() -> list[int]:
        return [row.id for row in await asyncio.gather(*(store.write(entry(number), inserts=True) for number in range(50)))]

    numbers = asyncio.run(scenario())
    entries = store.read_sync(lambda tx: tx.audit.page(AuditFilter(), limit=99)).entries
    assert {each.id: each.operation for each in entries} == {row: f"op{number}" for number, row in enumerate(numbers)}
