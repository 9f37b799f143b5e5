"""A server that dies at every step of a start that restores a snapshot: the next one finishes it, and no node starts before."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.snapshots import SnapshotRow, SnapshotStatus
from brickyard.features.snapshots.loop import SnapshotLimits, SnapshotWork
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.plan.snapshots import restoring
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.storage.directory import Storage
from brickyard.storage.snapshots import job as jobs
from brickyard.storage.snapshots.__main__ import _JOBS
from brickyard.storage.snapshots.chunks import ChunkStore
from brickyard.storage.snapshots.job import Job, JobFailed, Line, Named, manifest_file
from brickyard.storage.snapshots.manifest import encode
from brickyard.storage.snapshots.taking import Limits, take
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, SIZES
from brickyard.testing.clock import ManualClock
from tests.reconcile.crashes import Fuse, FusedStore, end, first_of, killed_at_every_step
from tests.reconcile.test_snapshots import ID, snapshot, stopped

GB = 1 << 30


def prepared(folder: Path) -> SnapshotRow:
    """A snapshot that holds "1", of a directory that holds "2" now."""
    current, store = folder / "workspaces" / ID / "current", folder / "snapshots"
    current.mkdir(parents=True)
    (current / "model").write_text("1")
    chunks = ChunkStore(store / "chunks")
    with chunks.writing():
        data, sha256 = encode(take(current, chunks, limits=Limits(GB)))
    row = snapshot("one")
    path = manifest_file(store, Named(row.snapshot_id, sha256))
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    (current / "model").write_text("2")
    return msgspec.structs.replace(row, status=SnapshotStatus.AVAILABLE, sha256=sha256, size_bytes=1)


async def server(store: Store, folder: Path) -> None:
    """Passes over the cluster and the work on its directory, until its first node is to be launched."""
    woken = asyncio.Event()
    woken.set()
    work = SnapshotWork(
        store=store,
        clock=ManualClock(),
        storage=Storage(folder),
        limits=SnapshotLimits(one=GB, all=GB, min_free=0),
        wake_cluster=lambda _: woken.set(),
    )
    working = asyncio.create_task(work.run())
    once = functools.partial(
        pass_over_cluster,
        cluster_id=ID,
        now=NOW,
        sizes=SIZES,
        policy=Policy(),
        ids=Ids(),
        silent=frozenset(),
        loads=Loads(),
        began_ms=0,
    )
    try:
        while not (await seen(store))[1]:
            await woken.wait()
            woken.clear()
            await store.write(once)
    finally:
        await end([working])


async def seen(store: Store) -> tuple[Cluster, int]:
    """The cluster, and how many nodes it has. Raises AssertionError if there is one before the directory is restored."""
    cluster, nodes = await store.read(lambda tx: (tx.clusters.get(ID), len(tx.instances.of_cluster(ID))))
    assert cluster is not None
    assert not (nodes and cluster.workbench.task.pending)
    return cluster, nodes


async def in_a_thread(job: Job, **_: Any) -> Line:
    """Does the job without a process of its own. It goes on when the server is gone, and the next server begins it again."""
    if job.kind == "collect":  # it talks with its server
        raise JobFailed("not here")
    return await asyncio.to_thread(_JOBS[job.kind], job, Path(job.store))


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_start_that_restores_survives_its_server(tmp_path: Path, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "run", in_a_thread)

    async def crash_at(folder: Path, store: Store, steps: int) -> bool:
        row = prepared(folder)
        starting = restoring(
            msgspec.structs.replace(stopped(), target=Target.RUNNING, ended=False, incarnation=2), row.snapshot_id
        )

        def asked(tx: Tx) -> None:
            tx.clusters.insert(starting)
            tx.snapshots.insert(row)

        await store.write(asked)
        fuse = Fuse(steps)
        fused = FusedStore(store, fuse, before=before)
        await first_of(server(fused, folder), fuse.blown.wait())  # type: ignore[arg-type] # as much of a store as it needs
        await fused.let_through()
        crashed = fuse.blown.is_set()
        await seen(store)
        await server(store, folder)
        cluster, nodes = await seen(store)
        assert (cluster.target, cluster.workbench.task.failure, nodes) == (Target.RUNNING, "", 3)
        top = folder / "workspaces" / ID
        assert (top / "current" / "model").read_text() == "1"
        assert sorted(path.name for path in top.iterdir()) == ["current", "done", "lock"]
        return crashed

    killed_at_every_step(tmp_path, crash_at, steps_at_least=3)
