"""Encoded clusters, kept until they change.

A cluster is read far more often than it changes. Only where the store is exclusive: then every change passes through this
process, and `drop` is called for it before the writer goes on. For one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.nodetypes import NodeType
from brickyard.services.views import cluster_details
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST_BYTES = 24 * 1024 * 1024  # of each kind of view: some ten thousand clusters


class _Kept:
    """Views by cluster, at most so many bytes of them: the one that was kept first goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._views: dict[str, bytes] = {}
        self.get = self._views.get

    def put(self, cluster_id: str, view: bytes) -> None:
        self.drop(cluster_id)
        self._views[cluster_id] = view
        self._size += len(view)
        while self._size > self._most:
            self.drop(next(iter(self._views)))

    def drop(self, cluster_id: str) -> None:
        self._size -= len(self._views.pop(cluster_id, b""))


class ViewCache:
    """JSON of clusters, for `get` and for items of `list`. `most` bounds the bytes that are kept for each."""

    def __init__(self, *, store: Store, sizes: Callable[[], Mapping[str, NodeType]], most: int = MOST_BYTES) -> None:
        self._store = store
        self._sizes = sizes
        self._full = _Kept(most)
        self._items = _Kept(most)
        self._reads: list[set[str]] = []  # one for every read under way: the clusters that have changed since it began
        store.on_commit(self.drop)

    def drop(self, cluster_ids: Iterable[str]) -> None:
        """These clusters have changed."""
        for cluster_id in cluster_ids:
            self._full.drop(cluster_id)
            self._items.drop(cluster_id)
            for changed in self._reads:
                changed.add(cluster_id)

    async def full(self, cluster_id: str) -> bytes | None:
        """The JSON of `get`; None for a cluster that does not exist (or no longer)."""
        found = self._full.get(cluster_id)
        if found is not None:
            return found
        with self._reading() as changed:
            encoded = await self._store.read(lambda tx: self._one(tx, cluster_id))
        if encoded is not None and self._store.exclusive and cluster_id not in changed:
            self._full.put(cluster_id, encoded)
        return encoded

    async def items(self, cluster_ids: Sequence[str]) -> list[bytes]:
        """The JSON of list items, in order; clusters that have gone meanwhile are left out."""
        # Taken before the read: what changes during it may leave the cache, but must not leave the answer.
        found = {cluster_id: item for cluster_id in cluster_ids if (item := self._items.get(cluster_id)) is not None}
        missing = [cluster_id for cluster_id in cluster_ids if cluster_id not in found]
        if missing:
            with self._reading() as changed:
                fresh = await self._store.read(lambda tx: self._many(tx, missing))
            found |= fresh
            if self._store.exclusive:
                for cluster_id in missing:
                    if cluster_id in fresh and cluster_id not in changed:
                        self._items.put(cluster_id, fresh[cluster_id])
        return [found[cluster_id] for cluster_id in cluster_ids if cluster_id in found]

    # These encode on the reader's thread, so that a long list holds up no other request.

    def _one(self, tx: Tx, cluster_id: str) -> bytes | None:
        cluster = tx.clusters.get(cluster_id)
        if cluster is None or cluster.deleted_ms:
            return None
        return self._encoded(cluster, tx.instances.of_cluster(cluster_id), with_spec=True)

    def _many(self, tx: Tx, cluster_ids: Sequence[str]) -> dict[str, bytes]:
        clusters, instances = tx.clusters.many(cluster_ids), tx.instances.of_clusters(cluster_ids)
        return {
            cluster_id: self._encoded(cluster, instances[cluster_id], with_spec=False)
            for cluster_id, cluster in clusters.items()
            if not cluster.deleted_ms
        }

    def _encoded(self, cluster: Cluster, instances: Sequence[Instance], *, with_spec: bool) -> bytes:
        return msgspec.json.encode(cluster_details(cluster, instances, sizes=self._sizes(), with_spec=with_spec))

    @contextmanager
    def _reading(self) -> Iterator[set[str]]:
        """Race: a commit falls between a read's snapshot and its arrival here; the commit drops what is cached, and then the
        old row would be cached for good. So every read learns which clusters changed while it was under way."""
        changed: set[str] = set()
        self._reads.append(changed)
        try:
            yield changed
        finally:
            # By identity: two reads may have seen equal changes.
            self._reads = [read for read in self._reads if read is not changed]
