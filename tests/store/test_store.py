"""The store keeps what it acknowledged, on both databases."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import msgspec
import pytest
from sqlalchemy.exc import IntegrityError

from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.identity import TokenRow, UserRow
from brickyard.domain.instances import InstanceState
from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterPosition, ClusterSort, EventFilter
from brickyard.domain.states import State
from brickyard.store.changeset import Changes
from brickyard.store.reserve import RESERVE_BYTES
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, cluster, instance
from tests.support.golden import Golden


def test_what_was_written_is_read_back_by_the_next_store(bare_url: str) -> None:
    first = Store.open(bare_url)
    first.write_sync(lambda tx: tx.clusters.insert(cluster()))
    first.close()
    second = Store.open(bare_url)
    assert second.read_sync(lambda tx: tx.clusters.get(cluster().cluster_id)) == cluster()
    second.close()


def test_an_error_rolls_everything_back(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.clusters.insert(cluster())
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        store.write_sync(work)
    assert store.read_sync(lambda tx: tx.clusters.get(cluster().cluster_id)) is None


def test_an_id_is_taken_once(store: Store) -> None:
    store.write_sync(lambda tx: tx.clusters.insert(cluster()))
    with pytest.raises(IntegrityError):
        store.write_sync(lambda tx: tx.clusters.insert(cluster()))


async def test_listeners_hear_of_a_commit_before_the_writer_goes_on(store: Store) -> None:
    heard: list[Changes] = []
    store.on_commit(heard.append)

    await store.write(lambda tx: tx.clusters.insert(cluster()))
    assert heard == [Changes(clusters={cluster().cluster_id})]
    await store.write(lambda tx: tx.set_meta("a", "b"))
    assert len(heard) == 1


async def test_writers_of_one_row_take_turns(store: Store) -> None:
    store.write_sync(lambda tx: tx.clusters.insert(cluster()))

    def add_one(tx: Tx) -> None:
        found = tx.clusters.get(cluster().cluster_id)
        assert found is not None
        tx.clusters.update(msgspec.structs.replace(found, incarnation=found.incarnation + 1))

    await asyncio.gather(*(store.write(add_one) for _ in range(40)))
    found = store.read_sync(lambda tx: tx.clusters.get(cluster().cluster_id))
    assert found is not None
    assert (found.incarnation, found.version) == (41, 40)


def test_a_wake_never_postpones(store: Store) -> None:
    name = cluster().cluster_id
    store.write_sync(lambda tx: tx.clusters.insert(cluster()))
    store.write_sync(lambda tx: tx.clusters.schedule(name, 5_000))
    store.write_sync(lambda tx: tx.clusters.wake(name, 9_000))
    assert store.read_sync(lambda tx: tx.clusters.due(4_999, 10)) == []
    assert store.read_sync(lambda tx: tx.clusters.due(5_000, 10)) == [name]
    store.write_sync(lambda tx: tx.clusters.wake(name, 1_000))
    assert store.read_sync(lambda tx: tx.clusters.due(1_000, 10)) == [name]
    store.write_sync(lambda tx: tx.clusters.schedule(name, None))
    assert store.read_sync(lambda tx: tx.clusters.due(10**15, 10)) == []
    store.write_sync(lambda tx: tx.clusters.wake(name))
    assert store.read_sync(lambda tx: tx.clusters.due(0, 10)) == [name]


def test_an_illegal_transition_of_an_instance_is_refused(store: Store, golden: Golden) -> None:
    of = cluster()
    store.write_sync(lambda tx: tx.instances.insert(instance(of, state=InstanceState.TERMINATING)))
    with golden.refused(ValueError, "TERMINATING", "REGISTERED"):
        store.write_sync(lambda tx: tx.instances.update(instance(of)))


def test_an_idempotency_token_finds_active_clusters_only(store: Store) -> None:
    of = cluster(idempotency_token="once")
    store.write_sync(lambda tx: tx.clusters.insert(of))
    assert store.read_sync(lambda tx: tx.clusters.by_idempotency_token("once", of.creator_user_name)) == of
    store.write_sync(lambda tx: tx.clusters.update(msgspec.structs.replace(of, target=Target.TERMINATED)))
    assert store.read_sync(lambda tx: tx.clusters.by_idempotency_token("once", of.creator_user_name)) is None


def test_pages_cover_everything_once_while_rows_come_and_go(store: Store) -> None:
    def fill(tx: Tx) -> None:
        for number in range(25):
            tx.clusters.insert(cluster(cluster_id=f"c-{number:02}", created_ms=NOW + number // 3))

    store.write_sync(fill)
    seen: list[str] = []
    position = None
    while True:
        page = store.read_sync(functools.partial(_page, position))
        if not page:
            break
        seen += [row.cluster_id for row in page]
        position = page[-1]
        newcomer = cluster(cluster_id=f"new-{len(seen)}", created_ms=NOW + 1_000)
        store.write_sync(functools.partial(_insert, newcomer))
    assert len(seen) == len(set(seen)) == 25
    assert seen == sorted(seen, key=lambda name: (-(int(name[2:]) // 3), -int(name[2:])))


def _page(after: ClusterPosition | None, tx: Tx) -> list[ClusterPosition]:
    return tx.listing.page(ClusterFilter(), sort=ClusterSort(), limit=4, after=after)


def _insert(row: Cluster, tx: Tx) -> None:
    tx.clusters.insert(row)


def test_filters_of_lists(store: Store) -> None:
    old = cluster(cluster_id="old", target=Target.TERMINATED, ended=True, terminated_ms=NOW - 10)
    pinned = msgspec.structs.replace(old, cluster_id="pinned", pinned_ms=NOW)
    gone = cluster(cluster_id="gone", deleted_ms=NOW)
    for row in (cluster(), old, pinned, gone):
        store.write_sync(functools.partial(_insert, row))

    def names(which: ClusterFilter) -> set[str]:
        sort = ClusterSort(by=ClusterOrder.NAME, descending=False)
        return {row.cluster_id for row in store.read_sync(lambda tx: tx.listing.page(which, sort=sort))}

    active = cluster().cluster_id
    assert names(ClusterFilter()) == {active, "old", "pinned"}
    assert names(ClusterFilter(ended_after_ms=NOW)) == {active, "pinned"}
    assert names(ClusterFilter(is_pinned=True)) == {"pinned"}
    assert names(ClusterFilter(is_pinned=False)) == {active, "old"}
    assert names(ClusterFilter(states=(State.PENDING, State.RUNNING))) == {active}
    assert store.read_sync(lambda tx: tx.clusters.count_pinned()) == 1
    assert store.read_sync(lambda tx: tx.clusters.count_by_state()) == {"PENDING": 1, "TERMINATED": 2}


def test_events_in_order_by_page_and_by_type(store: Store) -> None:
    def fill(tx: Tx) -> None:
        for number in range(10):
            kind = EventType.RUNNING if number % 2 else EventType.STARTING
            tx.events.append(ClusterEvent(cluster_id="c", timestamp=NOW + number // 4, type=kind))
        tx.events.append(ClusterEvent(cluster_id="other", timestamp=NOW, type=EventType.CREATING))

    store.write_sync(fill)
    which = EventFilter(cluster_id="c")
    first = store.read_sync(lambda tx: tx.events.page(which, limit=6))
    rest = store.read_sync(lambda tx: tx.events.page(which, limit=6, after=first[-1][0]))
    sequence = [position.seq for position, _ in [*first, *rest]]
    assert sequence == sorted(sequence, reverse=True)
    assert len(sequence) == 10
    assert store.read_sync(lambda tx: tx.events.count(EventFilter(cluster_id="c", types=(EventType.RUNNING,)))) == 5
    assert store.read_sync(lambda tx: tx.events.count(EventFilter(cluster_id="c", start_ms=NOW + 1, end_ms=NOW + 1))) == 4
    store.write_sync(lambda tx: tx.events.delete("c"))
    assert store.read_sync(lambda tx: tx.events.count(which)) == 0


def test_users_and_tokens(store: Store) -> None:
    user = UserRow(user_name="a@example.com", user_id="1", display_name="A")
    token = TokenRow(token_id="t", digest="d" * 64, user_name="a@example.com", comment="", created_ms=NOW, expiry_ms=-1)

    def fill(tx: Tx) -> None:
        tx.users.put(user)
        tx.users.put(msgspec.structs.replace(user, active=False))
        tx.tokens.insert(token)

    store.write_sync(fill)
    found = store.read_sync(lambda tx: tx.users.get("A@example.com"))
    assert found == msgspec.structs.replace(user, active=False)
    assert store.read_sync(lambda tx: tx.tokens.by_hash("d" * 64)) == token
    assert store.write_sync(lambda tx: tx.tokens.delete("t"))
    assert not store.write_sync(lambda tx: tx.tokens.delete("t"))


async def test_sqlite_has_room_for_writes_before_it_needs_it(tmp_path: Path) -> None:
    database, log = tmp_path / "b.db", tmp_path / "b.db-wal"
    store = Store.open(f"sqlite:///{database}")

    def note(name: str, count: int) -> None:
        for number in range(count):
            store.write_sync(lambda tx, key=f"{name}-{number}": tx.set_meta(key, "x" * 8192))  # type: ignore[misc]

    assert await store.keep_reserve()
    assert not await store.keep_reserve(), "it is there"
    sizes = database.stat().st_size, log.stat().st_size
    assert min(sizes) > RESERVE_BYTES
    note("some", 300)
    assert (database.stat().st_size, log.stat().st_size) == sizes, "free pages are used first, and the log is written over"
    note("more", 300)
    assert await store.keep_reserve(), "more than half of it was used up"
    store.close()
