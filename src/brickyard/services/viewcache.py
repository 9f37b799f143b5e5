"""Caches encoded clusters until they change.

A cluster is read far more often than it changes. Cached views are used only while no other server writes: then `drop` is called
for every change before its writer continues. For one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.nodetypes import NodeType
from brickyard.services.access import Acl, Authorizer
from brickyard.services.access.objects import of_cluster
from brickyard.services.views import cluster_details
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_ANY = "*"  # in a set of changes: any cluster may have changed
MOST_BYTES = 24 * 1024 * 1024  # for each kind of view: about ten thousand clusters


class View(NamedTuple):
    """A cluster as JSON, and who may see it: both from one transaction, and both outdated when the cluster changes."""

    json: bytes
    acl: Acl


class _Kept:
    """Views by cluster, up to a total size in bytes; the oldest are dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._views: dict[str, View] = {}
        self.get = self._views.get

    def put(self, cluster_id: str, view: View) -> None:
        self.drop(cluster_id)
        self._views[cluster_id] = view
        self._size += len(view.json)
        while self._size > self._most:
            self.drop(next(iter(self._views)))

    def drop(self, cluster_id: str) -> None:
        if (view := self._views.pop(cluster_id, None)) is not None:
            self._size -= len(view.json)

    def clear(self) -> None:
        self._views.clear()
        self._size = 0


class ViewCache:
    """JSON of clusters, for `get` and for items of `list`. `most` limits the bytes kept for each."""

    def __init__(
        self,
        *,
        store: Store,
        sizes: Callable[[], Mapping[str, NodeType]],
        authorizer: Authorizer,
        most: int = MOST_BYTES,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._sizes = sizes
        self._full = _Kept(most)
        self._items = _Kept(most)
        self._wanted: dict[str, list[asyncio.Future[View | None]]] = {}  # for the next read of whole clusters
        self._reader: asyncio.Task[None] | None = None
        self._reads: list[set[str]] = []  # one per read in progress: the clusters that have changed since it began
        store.on_commit(lambda changes: self.drop(changes.clusters))
        store.on_gap(self.clear)

    def drop(self, cluster_ids: Iterable[str]) -> None:
        """Drops the cached views of clusters that have changed."""
        for cluster_id in cluster_ids:
            self._full.drop(cluster_id)
            self._items.drop(cluster_id)
            for changed in self._reads:
                changed.add(cluster_id)

    def clear(self) -> None:
        """Drops all cached views, because any cluster may have changed."""
        self._full.clear()
        self._items.clear()
        for changed in self._reads:
            changed.add(_ANY)

    async def full(self, cluster_id: str) -> View | None:
        """The view for `get`; None if the cluster does not exist."""
        found = self._full.get(cluster_id)
        if found is not None and self._store.alone:
            return found
        waiting: asyncio.Future[View | None] = asyncio.get_running_loop().create_future()
        self._wanted.setdefault(cluster_id, []).append(waiting)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_wanted())
        return await waiting

    async def _read_wanted(self) -> None:
        """Reads requested clusters until none are left. All requests that arrive during a read share the next one: the busier the
        server, the less a request costs."""
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                try:
                    fresh = await self._fresh(list(wanted), self._full, with_spec=True)
                except Exception as error:
                    for waiting in (each for many in wanted.values() for each in many if not each.done()):
                        waiting.set_exception(error)
                else:
                    for cluster_id, many in wanted.items():
                        for waiting in (each for each in many if not each.done()):
                            waiting.set_result(fresh.get(cluster_id))
        finally:
            self._reader = None

    async def items(self, cluster_ids: Sequence[str]) -> list[bytes]:
        """The JSON of list items, in order; omits clusters that have disappeared meanwhile."""
        # Taken before the read: a change during the read may drop an item from the cache, but not from the answer.
        kept = cluster_ids if self._store.alone else ()
        found = {cluster_id: item for cluster_id in kept if (item := self._items.get(cluster_id)) is not None}
        missing = [cluster_id for cluster_id in cluster_ids if cluster_id not in found]
        if missing:
            found |= await self._fresh(missing, self._items, with_spec=False)
        return [found[cluster_id].json for cluster_id in cluster_ids if cluster_id in found]

    async def _fresh(self, cluster_ids: Sequence[str], kept: _Kept, *, with_spec: bool) -> dict[str, View]:
        """Reads these clusters, and caches what may be cached."""
        alone = self._store.alone  # before the read: a change by another server in between would not be reported
        with self._reading() as changed:
            fresh = await self._store.read(lambda tx: self._many(tx, cluster_ids, with_spec=with_spec))
        if alone and _ANY not in changed:
            for cluster_id in cluster_ids:
                if cluster_id in fresh and cluster_id not in changed:
                    kept.put(cluster_id, fresh[cluster_id])
        return fresh

    # These methods encode on the reader's thread, so that a long list does not delay other requests.

    def _many(self, tx: Tx, cluster_ids: Sequence[str], *, with_spec: bool) -> dict[str, View]:
        clusters, instances = tx.clusters.many(cluster_ids), tx.instances.of_clusters(cluster_ids)
        return {
            cluster_id: self._encoded(tx, cluster, instances[cluster_id], with_spec=with_spec)
            for cluster_id, cluster in clusters.items()
            if not cluster.deleted_ms
        }

    def _encoded(self, tx: Tx, cluster: Cluster, instances: Sequence[Instance], *, with_spec: bool) -> View:
        shown = cluster_details(cluster, instances, sizes=self._sizes(), with_spec=with_spec)
        return View(msgspec.json.encode(shown), self._authorizer.acl(tx, of_cluster(cluster)))

    @contextmanager
    def _reading(self) -> Iterator[set[str]]:
        """Race: a commit falls between a read's snapshot and its arrival here. The commit drops the cached view, and the outdated
        row would then be cached for good. So every read learns which clusters changed while it ran."""
        changed: set[str] = set()
        self._reads.append(changed)
        try:
            yield changed
        finally:
            # By identity: two reads may have seen equal changes.
            self._reads = [read for read in self._reads if read is not changed]
