"""The cluster service as every world of the tests builds it: one node type and one runtime unless a test wants others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from brickyard.access import Authorizer
from brickyard.clusters import ClusterService
from brickyard.clusters.v1 import SnapshotTasks
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.nodetypes import NodeType
from brickyard.features.files.homes import FormerHomes
from brickyard.storage.safetree import SafeTree
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL, SPARK_4
from brickyard.testing.clock import ManualClock


def cluster_service(
    store: Store,
    *,
    clock: Clock,
    ids: Ids | None = None,
    node_types: Sequence[NodeType] = (SMALL,),
    authorizer: Authorizer | None = None,
    wake: Callable[[str], None] = lambda _: None,
) -> ClusterService:
    """`wake` is called with the id of each changed cluster."""
    return ClusterService(
        store=store,
        clock=clock,
        ids=ids or Ids(),
        node_types=lambda: list(node_types),
        runtimes=[SPARK_4],
        authorizer=authorizer or Authorizer(),
        wake=wake,
    )


class Nobody:
    """Who collects nothing."""

    def collect_soon(self) -> None: ...


def snapshot_tasks(clusters: ClusterService, *, clock: Clock, max_bytes: int = 1 << 30) -> SnapshotTasks:
    """Nobody takes the snapshots."""
    return SnapshotTasks(clock=clock, ids=Ids(), offers=clusters.offers, max_bytes=max_bytes, collector=Nobody())


def no_homes() -> FormerHomes:
    """Where no user has left anything."""
    return FormerHomes(tree=SafeTree(root=Path("/no such directory")), clock=ManualClock())
