"""Snapshots are taken and restored exactly once, whoever does it and however often it is begun."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.snapshots import ClusterConfiguration, SnapshotRow, SnapshotStatus, snapshot_id
from brickyard.features.snapshots.loop import SnapshotLimits, SnapshotWork
from brickyard.plan.cluster import plan
from brickyard.plan.policy import Policy
from brickyard.plan.snapshots import ending, restoring
from brickyard.storage.directory import Storage
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES, cluster, nodes, up
from brickyard.testing.clock import ManualClock
from tests.support.databases import empty_sqlite
from tests.support.patience import PATIENCE_S

ID = "0101-000000-abcdefgh"
CONFIGURATION = ClusterConfiguration(
    gpu_type="", gpu_count=0, cpu_cores=1, memory_gb=1, node_type_id="small", num_workers=0, runtime=""
)


def snapshot(word: str, *, tasked: bool = False) -> SnapshotRow:
    return SnapshotRow(
        snapshot_id=snapshot_id(ID, word), cluster_id=ID, owner="o", user_name="u", name=word, created_ms=1,
        configuration=CONFIGURATION, tasked=tasked,
    )  # fmt: skip


def stopped() -> Cluster:
    return msgspec.structs.replace(cluster(cluster_id=ID), target=Target.TERMINATED, ended=True)


def drained(one: Cluster) -> Cluster:
    """After the pass that finds it without nodes."""
    return plan(one, [], now=5, sizes=SIZES, policy=Policy()).cluster


@contextlib.asynccontextmanager
async def servers(store: Store, top: Path, number: int = 2) -> AsyncIterator[list[SnapshotWork]]:
    """Servers that all believe that the work is theirs, as when one of them hung."""
    works = [
        SnapshotWork(
            store=store,
            clock=ManualClock(),
            storage=Storage(top),
            limits=SnapshotLimits(one=1 << 30, all=1 << 30, min_free=0),
            wake_cluster=lambda _: None,
        )
        for _ in range(number)
    ]
    running = [asyncio.create_task(work.run()) for work in works]
    try:
        yield works
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def put(store: Store, one: Cluster, row: SnapshotRow) -> None:
    def work(tx: Tx) -> None:
        tx.clusters.insert(one)
        tx.snapshots.insert(row)

    await store.write(work)


async def row_of(store: Store, row: SnapshotRow) -> SnapshotRow:
    found = await store.read(lambda tx: tx.snapshots.get(row.snapshot_id))
    assert found is not None
    return found


async def eventually(store: Store, there: Callable[[Cluster], bool]) -> Cluster:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            now = await store.read(lambda tx: tx.clusters.get(ID))
            if now is not None and there(now):
                return now
            await asyncio.sleep(0.02)


async def test_two_servers_save_discard_and_restore_once(store: Store, tmp_path: Path) -> None:
    current = tmp_path / "workspaces" / ID / "current"
    current.mkdir(parents=True)
    (current / "a").write_text("1")
    row = snapshot("one", tasked=True)

    saving = drained(ending(stopped(), save=row.snapshot_id, discard=True))
    assert not saving.ended
    await put(store, saving, row)
    async with servers(store, tmp_path):
        done = await eventually(store, lambda now: not now.workbench.task.pending)
        taken = await row_of(store, row)
        assert (taken.status, taken.size_bytes, done.workbench.task.failure) == (SnapshotStatus.AVAILABLE, 1, "")
        assert list(current.iterdir()) == []
        assert drained(done).ended

        wanted = drained(restoring(msgspec.structs.replace(done, target=Target.RUNNING, incarnation=2), row.snapshot_id))
        await store.write(lambda tx: tx.clusters.update(wanted))
        back = await eventually(store, lambda now: not now.workbench.task.pending)
        assert (back.target, (current / "a").read_text()) == (Target.RUNNING, "1")
        (current / "a").write_text("2")  # by a node that has started
    async with servers(store, tmp_path, 1) as (late,):
        await late._restore(wanted)  # begun before, by a server that hung
        assert (current / "a").read_text() == "2"


async def test_a_server_that_is_killed_in_the_middle_is_followed_by_another_one(store: Store, tmp_path: Path) -> None:
    current = tmp_path / "workspaces" / ID / "current"
    current.mkdir(parents=True)
    for number in range(8):
        (current / str(number)).write_bytes(bytes([number]) * 1_000_000)
    row = snapshot("large")
    await put(store, stopped(), row)
    for _ in range(2):  # each is ended while its process works
        async with servers(store, tmp_path, 1) as (work,), asyncio.timeout(PATIENCE_S):
            while not work._running:
                await asyncio.sleep(0.02)
    async with servers(store, tmp_path, 1) as (work,):
        async with asyncio.timeout(PATIENCE_S):
            while (taken := await row_of(store, row)).status is SnapshotStatus.CREATING:
                await asyncio.sleep(0.02)
        assert (taken.status, taken.size_bytes) == (SnapshotStatus.AVAILABLE, 8_000_000)
        manifests, ours = tmp_path / "snapshots" / "manifests", f"{row.snapshot_id}.{taken.sha256}"
        theirs = f"{snapshot_id('0202-000000-never-known', 'large')}.{taken.sha256}"  # of a cluster of another database
        shutil.copyfile(manifests / ours, manifests / theirs)
        await work.collect()
        assert sorted(path.name for path in manifests.iterdir()) == sorted([ours, theirs])
        await store.write(lambda tx: tx.snapshots.delete(row.snapshot_id))
        await work.collect()
    assert [path.name for path in manifests.iterdir()] == [theirs]
    assert any((tmp_path / "snapshots" / "chunks").glob("??/*")), "what it needs stays, too"


def test_a_stop_at_the_moment_of_a_wake_is_not_lost(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        for ticks in range(8):
            work = SnapshotWork(
                store=store,
                clock=ManualClock(),
                storage=Storage(tmp_path),
                limits=SnapshotLimits(one=1, all=1, min_free=0),
                wake_cluster=lambda _: None,
                held=lambda: False,
            )
            running = asyncio.create_task(work.run())
            for _ in range(10):  # until it waits
                await asyncio.sleep(0)
            work.wake()
            for _ in range(ticks):
                await asyncio.sleep(0)
            running.cancel()
            ended, _ = await asyncio.wait([running], timeout=PATIENCE_S)
            assert ended == {running}, f"cancelled {ticks} turns of the event loop after a wake"

    opened = Store.open(empty_sqlite(tmp_path / "test.db"))
    try:
        asyncio.run(asyncio.wait_for(scenario(opened), 2 * PATIENCE_S))
    finally:
        opened.close()


def test_no_node_is_there_while_a_directory_is_restored() -> None:
    running = up(cluster(cluster_id=ID))
    wanted = restoring(msgspec.structs.replace(running, incarnation=running.incarnation + 1, restarting=True), "snap")
    found = nodes(running, 2)
    first = plan(wanted, found, now=1, sizes=SIZES, policy=Policy())
    assert first.new == []
    assert not first.cluster.workbench.task.ready_ms
    assert all(not first.instances[each.instance_id].live for each in found)
    empty = plan(first.cluster, [], now=2, sizes=SIZES, policy=Policy())
    assert (empty.new, empty.cluster.workbench.task.due_ms) == ([], 2)
