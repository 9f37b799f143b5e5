"""What nothing has kept for too long is removed: once, by a loop, whatever restarts in between."""

from __future__ import annotations

import asyncio
import functools
import os
from pathlib import Path

import msgspec
import pytest

from brickyard.domain.access import Principal
from brickyard.domain.clock import Ids
from brickyard.domain.cluster import RETENTION_MS, Cluster, Target
from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.periodic import LEASE_S
from brickyard.domain.queries import EventFilter
from brickyard.domain.requests import ClusterId, CreateCluster, EditCluster, GetEvents, ResizeCluster, StartCluster
from brickyard.domain.spend import Charge
from brickyard.machine.pressure import DBFS_FULL
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.reconcile.retention import CLUSTERS_S, EVENTS_KEPT_MS, Retention
from brickyard.reconcile.room import DiskRoom
from brickyard.server.supervisor import Supervisor
from brickyard.storage.directory import Storage
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES, cluster
from brickyard.testing.clock import ManualClock
from tests.reconcile.world import World, provider
from tests.support.desk import ADMIN, Desk, refused
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

USER = Principal(user_name="u", user_id="1", is_admin=False)
DAY = 24 * 3600 * 1000


def terminated(name: str, now: int, *, pinned_ms: int = 0) -> Cluster:
    return cluster(cluster_id=name, target=Target.TERMINATED, ended=True, terminated_ms=now, pinned_ms=pinned_ms)


def put(store: Store, *rows: Cluster) -> None:
    def work(tx: Tx) -> None:
        for row in rows:
            tx.clusters.insert(row)
            tx.events.append(ClusterEvent(cluster_id=row.cluster_id, timestamp=row.terminated_ms, type=EventType.TERMINATING))

    store.write_sync(work)


def gone(store: Store, *names: str) -> None:
    """Clusters that the database knew, and that were permanently deleted."""

    def work(tx: Tx) -> None:
        for name in names:
            tx.clusters.remember(name, purged_ms=0)

    store.write_sync(work)


def there(store: Store, name: str) -> tuple[bool, int]:
    """Whether a cluster's row exists, and how many events it has."""
    return store.read_sync(lambda tx: (tx.clusters.get(name) is not None, tx.events.count(EventFilter(cluster_id=name))))


async def server(store: Store, clock: ManualClock) -> None:
    """A server's life: it looks at what is due, and ends."""
    await World(store, provider(), clock=clock).loop.first_pass()


async def test_a_terminated_cluster_goes_after_thirty_days_and_a_pinned_one_thirty_days_after_its_pin(store: Store) -> None:
    desk = Desk(store)
    clock = desk.clock
    put(store, terminated("old", clock.now_ms()), terminated("kept", clock.now_ms(), pinned_ms=1))
    await server(store, clock)
    clock.advance(ms=RETENTION_MS - 1)
    await server(store, clock)
    assert there(store, "old") == there(store, "kept") == (True, 1)
    clock.advance(ms=1)
    await server(store, clock)
    assert there(store, "old") == (False, 0)
    assert there(store, "kept") == (True, 1)
    clock.advance(ms=10 * DAY)
    await desk.service.unpin(ADMIN, ClusterId(cluster_id="kept"))
    clock.advance(ms=RETENTION_MS - 1)
    await server(store, clock)
    assert there(store, "kept") == (True, 2)
    clock.advance(ms=1)
    await server(store, clock)
    assert there(store, "kept") == (False, 0)


async def test_the_loop_of_a_server_that_runs_finds_it_by_itself(store: Store) -> None:
    clock = ManualClock()
    put(store, terminated("old", clock.now_ms()))
    async with World(store, provider(), clock=clock).running() as world:
        await world.until(lambda: not store.read_sync(lambda tx: tx.clusters.due(clock.now_ms(), 1)))
        clock.advance(ms=RETENTION_MS)
        await world.until(lambda: there(store, "old") == (False, 0))


async def test_two_passes_purge_once(store: Store) -> None:
    """Two servers on one database find the same cluster due: the second finds nothing."""
    clock = ManualClock()
    put(store, terminated("old", clock.now_ms() - RETENTION_MS))
    once = functools.partial(
        pass_over_cluster,
        cluster_id="old",
        now=clock.now_ms(),
        sizes=SIZES,
        policy=Policy(),
        ids=Ids(),
        silent=frozenset(),
        loads=Loads(),
    )

    await asyncio.gather(store.write(once), store.write(once))
    assert there(store, "old") == (False, 0)
    assert store.read_sync(lambda tx: tx.clusters.was_purged("old"))


async def test_a_start_that_comes_first_keeps_the_cluster(store: Store) -> None:
    desk = Desk(store)
    put(store, terminated("back", desk.clock.now_ms()))
    desk.clock.advance(ms=RETENTION_MS + DAY)
    await desk.service.start(ADMIN, StartCluster(cluster_id="back"))
    await server(store, desk.clock)
    assert there(store, "back")[0]


async def test_whoever_asks_for_a_purged_cluster_is_told(store: Store) -> None:
    desk = Desk(store)
    put(store, terminated("old", desk.clock.now_ms() - RETENTION_MS))
    await server(store, desk.clock)
    service, which = desk.service, ClusterId(cluster_id="old")
    edit = EditCluster(cluster_id="old", spark_version="17.3.x-scala2.13", node_type_id="small", num_workers=1)
    clone = msgspec.convert(
        {
            "spark_version": "17.3.x-scala2.13",
            "node_type_id": "small",
            "num_workers": 1,
            "clone_from": {"source_cluster_id": "old"},
        },
        CreateCluster,
    )
    for call in (
        service.get(ADMIN, "old"),
        service.events(ADMIN, GetEvents(cluster_id="old")),
        service.start(ADMIN, StartCluster(cluster_id="old")),
        service.delete(ADMIN, which),
        service.permanent_delete(ADMIN, which),
        service.pin(ADMIN, which),
        service.edit(ADMIN, edit),
        service.resize(ADMIN, ResizeCluster(cluster_id="old", num_workers=1)),
        service.create(ADMIN, clone),
    ):
        expected = "Cannot access cluster old that was terminated or unpinned more than 30 days ago."
        assert await refused(InvalidState, call) == expected
    assert (await desk.list(paged=False))["clusters"] == []


@pytest.mark.parametrize("pinned", [False, True])
def test_a_permanently_deleted_cluster_never_was(store: Store, *, pinned: bool, golden: Golden) -> None:
    async def scenario() -> None:
        desk = Desk(store)
        put(store, terminated("gone", desk.clock.now_ms()))
        if pinned:
            await desk.service.pin(ADMIN, ClusterId(cluster_id="gone"))
            message = await refused(ApiError, desk.service.permanent_delete(ADMIN, ClusterId(cluster_id="gone")))
            golden(message, "gone")
            await desk.service.unpin(ADMIN, ClusterId(cluster_id="gone"))
        await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id="gone"))
        for _ in range(2):  # hidden at once, and the same once nothing is left of it
            message = await refused(InvalidParameterValue, desk.service.get(ADMIN, "gone"))
            golden(message)
            await server(store, desk.clock)
        assert there(store, "gone") == (False, 0)

    asyncio.run(scenario())


async def test_events_are_kept_for_sixty_days(store: Store, tmp_path: Path) -> None:
    clock = ManualClock()
    first = clock.now_ms()
    put(store, cluster(cluster_id="c"))

    def fill(tx: Tx) -> None:
        for day in range(100):
            tx.events.append(ClusterEvent(cluster_id="c", timestamp=first + day * DAY, type=EventType.PINNED))

    store.write_sync(fill)
    clock.advance(ms=99 * DAY)
    kept = [first + day * DAY for day in range(39, 100)]
    assert kept[0] == clock.now_ms() - EVENTS_KEPT_MS

    retention = Retention(store=store, clock=clock, storage=Storage(tmp_path))
    assert await retention.trim_events() == 101 - len(kept)
    assert await retention.trim_events() == 0
    which = EventFilter(cluster_id="c")
    rows = store.read_sync(lambda tx: tx.events.page(which, descending=False, limit=500))
    assert [event.timestamp for _, event in rows] == kept
    assert store.read_sync(lambda tx: tx.events.count(which)) == len(kept)


def test_logs_of_nodes_are_kept_for_thirty_days_and_those_of_clusters_that_are_no_more_for_one(
    store: Store, tmp_path: Path
) -> None:
    clock, logs = ManualClock(), tmp_path / "logs"
    put(store, cluster(cluster_id="here"))
    gone(store, "gone", "long gone")

    def left(name: str, days: float) -> Path:
        node = logs / name
        node.mkdir(parents=True)
        (node / "driver.log").write_text("why")
        seconds = clock.now_ms() / 1000 - days * DAY / 1000
        os.utime(node, (seconds, seconds))
        return node

    kept = [left("here/i-1-1", 29.9), left("gone/i-1-1", 0.9), left("never known/i-0-1", 99)]
    over = [left("here/i-0-1", 30.1), left("gone/i-0-1", 1.1), left("long gone/i-0-1", 99)]
    retention = Retention(store=store, clock=clock, storage=Storage(tmp_path))
    assert asyncio.run(retention.sweep_logs()) == 3
    assert all((node / "driver.log").exists() for node in kept)
    assert not any(node.exists() for node in over)
    assert not (logs / "long gone").exists()
    assert asyncio.run(retention.sweep_logs()) == 0
    assert asyncio.run(Retention(store=store, clock=clock, storage=Storage(tmp_path / "none")).sweep_logs()) == 0
    set_to = Retention(store=store, clock=clock, storage=Storage(tmp_path), logs_kept_ms=DAY // 2)
    assert asyncio.run(set_to.sweep_logs()) == 2, "log_days"


def test_what_a_cluster_held_goes_with_it_and_nothing_else(store: Store, tmp_path: Path) -> None:
    clusters = tmp_path / "clusters"
    put(store, terminated("here", 1))
    gone(store, "gone")
    for name in ("here", "gone", "never known"):
        (clusters / name / "warehouse" / "t").mkdir(parents=True)
        (clusters / name / "warehouse" / "t" / "part-0").write_text("rows")
    (clusters / "gone" / "link").symlink_to(clusters / "here")
    retention = Retention(store=store, clock=ManualClock(), storage=Storage(tmp_path))
    assert asyncio.run(retention.sweep_clusters()) == 1
    assert sorted(path.name for path in clusters.iterdir()) == ["here", "never known"]
    assert (clusters / "here" / "warehouse" / "t" / "part-0").exists()


def test_what_a_cluster_of_before_has_left_is_known_by_its_charges(store: Store, tmp_path: Path) -> None:
    """Earlier versions did not remember the clusters that were permanently deleted."""
    (tmp_path / "clusters" / "gone").mkdir(parents=True)
    charge = Charge(
        cluster_id="gone", instance_id="i", started_ms=1, ended_ms=2, price_per_hour=0, currency="EUR", node_type_id="small",
        role="DRIVER", creator_user_name="",
    )  # fmt: skip
    store.write_sync(lambda tx: tx.charges.write([], [charge]))
    assert asyncio.run(Retention(store=store, clock=ManualClock(), storage=Storage(tmp_path)).sweep_clusters()) == 1


async def swept(retention: Retention) -> Supervisor:
    """Its sweeps, as a server runs them, with short pauses after errors."""
    supervisor, loops = Supervisor(), retention.loops
    for loop in loops.values():
        loop.again_s = (0.01, 0.01)
    await supervisor.start(loops)
    return supervisor


async def test_the_directory_of_a_removed_cluster_is_not_kept_for_an_hour(store: Store, tmp_path: Path) -> None:
    clusters = tmp_path / "clusters"
    gone(store, "gone")
    retention = Retention(store=store, clock=ManualClock(), storage=Storage(tmp_path))
    running = await swept(retention)
    (clusters / "gone").mkdir(parents=True)
    async with asyncio.timeout(PATIENCE_S):
        while (clusters / "gone").exists():
            retention.cluster_gone()
            await asyncio.sleep(0.01)
    await running.stop()


async def test_only_the_server_whose_turn_it_is_sweeps_and_each_removes_what_it_ended(store: Store, tmp_path: Path) -> None:
    storage, clock = Storage(tmp_path), ManualClock()
    gone(store, "gone")
    (storage.clusters / "gone").mkdir(parents=True)
    (storage.workspaces / "gone" / "current").mkdir(parents=True)
    (storage.logs.of("gone") / "i-1-1").mkdir(parents=True)
    os.utime(storage.logs.of("gone") / "i-1-1", (0, 0))
    other = Retention(store=store, clock=clock, storage=storage, held=lambda: False)
    running = await swept(other)
    async with asyncio.timeout(PATIENCE_S):
        while storage.cluster_directories():
            other.cluster_gone()
            await asyncio.sleep(0.01)
    assert storage.logs.clusters() == ["gone"]
    held = await swept(Retention(store=store, clock=clock, storage=storage, held=lambda: True))
    async with asyncio.timeout(PATIENCE_S):
        while storage.logs.clusters():
            await asyncio.sleep(0.01)
    for each in (running, held):
        await each.stop()


async def test_the_directory_of_a_cluster_whose_server_was_killed_is_found_within_a_minute(store: Store, tmp_path: Path) -> None:
    """The server that removed the row was killed before it removed the directory; none of the others is told."""

    storage = Storage(tmp_path)
    put(store, terminated("here", 1))
    gone(store, "gone", "gone later")
    storage.clusters.mkdir()
    retention = Retention(store=store, clock=ManualClock(), storage=storage, clusters_s=0.05)
    running = await swept(retention)
    for name in ("gone", "here", "gone later"):
        (storage.clusters / name).mkdir()
        async with asyncio.timeout(PATIENCE_S):
            while (storage.clusters / name).exists() and name != "here":
                await asyncio.sleep(0.01)
    assert storage.cluster_directories() == ["here"]
    await running.stop()
    assert CLUSTERS_S + LEASE_S < 70, "docs/replicas.md says so"


async def test_a_sweep_that_fails_keeps_no_other_from_its_work_and_is_tried_again_soon(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    async def fails(_: Retention) -> int:
        done.append("events")
        if done.count("events") < 3:
            raise OSError("the disk has lost a page")
        return 0

    async def works(_: Retention) -> int:
        done.append("logs")
        return 0

    monkeypatch.setattr(Retention, "trim_events", fails)
    monkeypatch.setattr(Retention, "sweep_logs", works)
    retention = Retention(store=store, clock=ManualClock(), storage=Storage(tmp_path))
    running = await swept(retention)
    async with asyncio.timeout(PATIENCE_S):
        while done.count("events") < 3:
            await asyncio.sleep(0.01)
    await running.stop()
    assert done.count("logs") == 1


def test_the_last_bytes_are_for_administrators(store: Store, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    room = DiskRoom(store=store, storage=storage, data_dir=tmp_path, min_free=0, dbfs_limit=1 << 20)
    for tree in storage.trees:
        tree.mkdir()
    (storage.dbfs / "f").write_bytes(bytes(1000 << 10))
    asyncio.run(room.run_once())
    assert "dbfs_gb" in room.refusal(USER) and room.refusal(ADMIN) == ""
    assert (tmp_path / DBFS_FULL).exists(), "nobody knows whose a node's files are"


async def test_one_server_counts_the_workspaces_files_for_all(store: Store, tmp_path: Path) -> None:
    storage, turns = Storage(tmp_path), {"one": True, "two": False}

    def room(name: str) -> DiskRoom:
        return DiskRoom(store=store, storage=storage, data_dir=tmp_path, min_free=0, dbfs_limit=100_000, held=lambda: turns[name])

    one, two = room("one"), room("two")
    for tree in storage.trees:  # none of them exceeds the limit by itself
        tree.mkdir()
        (tree / "f").write_bytes(bytes(36_000))
    await two.run_once()
    assert two.refusal(USER) == "" and not (tmp_path / DBFS_FULL).exists()
    await one.run_once()
    await two.run_once()
    assert one.dbfs_used == two.dbfs_used
    assert one.dbfs_used.size >= 108_000 and one.dbfs_used.inodes == 3
    assert "dbfs_gb" in two.refusal(USER) and "dbfs_gb" in two.refusal(ADMIN) and (tmp_path / DBFS_FULL).exists()
    (storage.volumes / "f").unlink()
    turns.update(one=False, two=True)  # the first server has been killed
    await two.run_once()
    await one.run_once()
    assert one.refusal(USER) == two.refusal(USER) == "" and not (tmp_path / DBFS_FULL).exists()
    assert room("one").dbfs_used == two.dbfs_used  # one that starts knows it at once
