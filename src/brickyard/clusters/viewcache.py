"""Caches encoded clusters until they change.

A cluster is read far more often than it changes. Cached views are used only while no other server writes: then `drop` is called
for every change before its writer continues. For one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from brickyard.access import Acl, Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.views import cluster_details
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.nodetypes import NodeType
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_ANY = "*"  # in a set of changes: any cluster may have changed
MOST_BYTES = 24 * 1024 * 1024  # for each kind of view: about ten thousand clusters


class Encoded(Protocol):
    """What can be cached."""

    @property
    def json(self) -> bytes: ...


V = TypeVar("V", bound=Encoded)
V_co = TypeVar("V_co", bound=Encoded, covariant=True)


class View(NamedTuple):
    """A cluster as JSON, and who may see it: both from one transaction, and both outdated when the cluster changes."""

    json: bytes
    acl: Acl


class _Kept(Generic[V]):
    """Views by cluster, up to a total size in bytes; the oldest are dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._views: dict[str, V] = {}
        self.get = self._views.get

    def put(self, cluster_id: str, view: V) -> None:
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


class Views(Protocol[V_co]):
    """One kind of view of clusters."""

    def views(self, tx: Tx, cluster_ids: Sequence[str]) -> Mapping[str, V_co]:
        """The views of those of the clusters that exist. Runs on a reader's thread, so that a long list does not delay other
        requests."""
        ...


class ClusterCache(Generic[V]):
    """One kind of view of clusters. `most` limits the bytes that are kept."""

    def __init__(self, *, store: Store, views: Views[V], most: int = MOST_BYTES) -> None:
        self._store = store
        self._views = views
        self._kept = _Kept[V](most)
        self._wanted: dict[str, list[asyncio.Future[V | None]]] = {}  # for the next read of single clusters
        self._reader: asyncio.Task[None] | None = None
        self._reads: list[set[str]] = []  # one per read in progress: the clusters that have changed since it began
        store.on_commit(lambda changes: self.drop(changes.clusters))
        store.on_gap(self.clear)

    def drop(self, cluster_ids: Iterable[str]) -> None:
        """Drops the cached views of clusters that have changed."""
        for cluster_id in cluster_ids:
            self._kept.drop(cluster_id)
            for changed in self._reads:
                changed.add(cluster_id)

    def clear(self) -> None:
        """Drops all cached views, because any cluster may have changed."""
        self._kept.clear()
        for changed in self._reads:
            changed.add(_ANY)

    def kept(self, cluster_id: str) -> V | None:
        """The view of a cluster, if it is cached and may be used."""
        found = self._kept.get(cluster_id)
        return found if found is not None and self._store.alone else None

    async def one(self, cluster_id: str) -> V | None:
        """The view of a cluster; None if it does not exist."""
        if (found := self.kept(cluster_id)) is not None:
            return found
        waiting: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
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
                    fresh = await self._fresh(list(wanted))
                except Exception as error:
                    for waiting in (each for many in wanted.values() for each in many if not each.done()):
                        waiting.set_exception(error)
                else:
                    for cluster_id, many in wanted.items():
                        for waiting in (each for each in many if not each.done()):
                            waiting.set_result(fresh.get(cluster_id))
        finally:
            self._reader = None

    async def many(self, cluster_ids: Sequence[str]) -> list[V]:
        """The views of clusters, in order; omits those that have disappeared meanwhile."""
        # Taken before the read: a change during the read may drop a view from the cache, but not from the answer.
        alone = self._store.alone
        kept = [self._kept.get(cluster_id) if alone else None for cluster_id in cluster_ids]
        missing = [cluster_id for cluster_id, view in zip(cluster_ids, kept, strict=True) if view is None]
        if missing:
            fresh = await self._fresh(missing)
            kept = [fresh.get(cluster_id) if view is None else view for cluster_id, view in zip(cluster_ids, kept, strict=True)]
        return [view for view in kept if view is not None]

    async def _fresh(self, cluster_ids: Sequence[str]) -> Mapping[str, V]:
        """Reads these clusters, and caches what may be cached."""
        alone = self._store.alone  # before the read: a change by another server in between would not be reported
        with self._reading() as changed:
            fresh = await self._store.read(lambda tx: self._views.views(tx, cluster_ids))
        if alone and _ANY not in changed:
            for cluster_id in cluster_ids:
                if cluster_id in fresh and cluster_id not in changed:
                    self._kept.put(cluster_id, fresh[cluster_id])
        return fresh

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


class Sizes(Protocol):
    """What node types are like now: `Offers`."""

    def node_types(self) -> Mapping[str, NodeType]: ...


class ViewCache:
    """JSON of clusters, for `get` and for items of `list`. `most` limits the bytes kept for each."""

    def __init__(self, *, store: Store, sizes: Sizes, authorizer: Authorizer, most: int = MOST_BYTES) -> None:
        self._full = ClusterCache(store=store, views=_Details(sizes, authorizer, with_spec=True), most=most)
        self._items = ClusterCache(store=store, views=_Details(sizes, authorizer, with_spec=False), most=most)

    def drop(self, cluster_ids: Iterable[str]) -> None:
        """Drops the cached views of clusters that have changed."""
        for cache in (self._full, self._items):
            cache.drop(cluster_ids)

    def clear(self) -> None:
        """Drops all cached views, because any cluster may have changed."""
        for cache in (self._full, self._items):
            cache.clear()

    def kept(self, cluster_id: str) -> View | None:
        """The view for `get`, if it is cached and may be used."""
        return self._full.kept(cluster_id)

    async def full(self, cluster_id: str) -> View | None:
        """The view for `get`; None if the cluster does not exist."""
        return await self._full.one(cluster_id)

    async def items(self, cluster_ids: Sequence[str]) -> list[bytes]:
        """The JSON of list items, in order; omits clusters that have disappeared meanwhile."""
        return [view.json for view in await self._items.many(cluster_ids)]


class _Details(NamedTuple):
    """The API's object of a cluster, with or without what a client sent last."""

    sizes: Sizes
    authorizer: Authorizer
    with_spec: bool

    def views(self, tx: Tx, cluster_ids: Sequence[str]) -> dict[str, View]:
        clusters, instances = tx.clusters.many(cluster_ids), tx.instances.of_clusters(cluster_ids)
        existing = [cluster for cluster in clusters.values() if not cluster.deleted_ms]
        acls = self.authorizer.acls(tx, [of_cluster(cluster) for cluster in existing])
        return {
            cluster.cluster_id: View(self._encoded(cluster, instances[cluster.cluster_id]), acl)
            for cluster, acl in zip(existing, acls, strict=True)
        }

    def _encoded(self, cluster: Cluster, instances: Sequence[Instance]) -> bytes:
        sizes = self.sizes.node_types()
        return msgspec.json.encode(cluster_details(cluster, instances, sizes=sizes, with_spec=self.with_spec))
