"""Encoded clusters, kept until they change.

A cluster is read far more often than it changes. Only where the store is exclusive: then every change passes through this
process, and `drop` is called for it before the writer goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.nodetypes import NodeType
from brickyard.services.views import cluster_details
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_encode = msgspec.json.Encoder().encode


class ViewCache:
    """JSON of clusters, for `get` and for items of `list`."""

    def __init__(self, *, store: Store, sizes: dict[str, NodeType]) -> None:
        self._store = store
        self._sizes = sizes
        self._full: dict[str, bytes] = {}
        self._items: dict[str, bytes] = {}
        self._drops = 0
        store.on_commit(self.drop)

    def drop(self, cluster_ids: Iterable[str]) -> None:
        """These clusters have changed."""
        self._drops += 1
        for cluster_id in cluster_ids:
            self._full.pop(cluster_id, None)
            self._items.pop(cluster_id, None)

    async def full(self, cluster_id: str) -> bytes | None:
        """The JSON of `get`; None for a cluster that does not exist (or no longer)."""
        found = self._full.get(cluster_id)
        if found is not None:
            return found
        drops = self._drops
        cluster, instances = await self._store.read(lambda tx: _one(tx, cluster_id))
        if cluster is None or cluster.deleted_ms:
            return None
        encoded = _encode(cluster_details(cluster, instances, sizes=self._sizes, with_spec=True))
        # A commit between the read and now has counted `_drops` up: what was read may be stale, and is not kept.
        if self._store.exclusive and drops == self._drops:
            self._full[cluster_id] = encoded
        return encoded

    async def items(self, cluster_ids: Sequence[str]) -> list[bytes]:
        """The JSON of list items, in order; clusters that have gone meanwhile are left out."""
        missing = [cluster_id for cluster_id in cluster_ids if cluster_id not in self._items]
        fresh: dict[str, bytes] = {}
        if missing:
            drops = self._drops
            clusters, instances = await self._store.read(
                lambda tx: (tx.clusters.many(missing), tx.instances.of_clusters(missing))
            )
            for cluster_id, cluster in clusters.items():
                view = cluster_details(cluster, instances[cluster_id], sizes=self._sizes, with_spec=False)
                fresh[cluster_id] = _encode(view)
            if self._store.exclusive and drops == self._drops:
                self._items.update(fresh)
        found = (fresh.get(cluster_id) or self._items.get(cluster_id) for cluster_id in cluster_ids)
        return [item for item in found if item is not None]


def _one(tx: Tx, cluster_id: str) -> tuple[Cluster | None, list[Instance]]:
    return tx.clusters.get(cluster_id), tx.instances.of_cluster(cluster_id)
