"""Reads of clusters in the /v1/clusters dialect. One cluster, and the items of lists, are encoded once until they change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brickyard.access import Acl, Authorizer
from brickyard.access.credentials import renewed
from brickyard.access.objects import of_cluster
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.v1 import listing
from brickyard.clusters.v1.following import STREAMS, Following
from brickyard.clusters.v1.ports import PortPlanner
from brickyard.clusters.v1.problems import permitted
from brickyard.clusters.v1.views import Viewer
from brickyard.clusters.viewcache import ClusterCache
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import QuotaExceeded, ResourceNotFound
from brickyard.domain.quotas import Occupancy
from brickyard.domain.v1.clusters import ListV1Clusters, Operation, PhaseStatus, V1Cluster
from brickyard.plan.autoterminate import Deadlines, deadlines
from brickyard.store.bells import cluster_bells
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_LEFT = b'"remaining_seconds":'  # quotes in users' words are escaped, so only the field itself looks like this before a null
LOOK_MS = 1000
MOST_LOOKS = 1000
_encode = msgspec.json.Encoder().encode


class _Shown(NamedTuple):
    """A cluster as lists show it, and who may see it. `lasting`: besides `deadlines`, `get` shows the same until it changes."""

    json: bytes
    acl: Acl
    lasting: bool
    deadlines: Deadlines | None


class _Look(NamedTuple):
    """A look at a cluster while `of` is cached."""

    of: _Shown
    until_ms: int
    json: asyncio.Future[bytes]


class V1Reads:
    """One per server. Bytes are JSON. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        wall: Clock,
        authorizer: Authorizer,
        offers: Offers,
        currency: str,
        ports: PortPlanner,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall = wall
        self._authorizer = authorizer
        self._offers = offers
        self._currency = currency
        self._ports = ports
        self._cache = ClusterCache(store=store, views=self)
        self._looks: dict[str, _Look] = {}
        self.bells = cluster_bells(store)
        self._streams = Occupancy()

    async def get(self, caller: Caller, cluster_id: str) -> bytes:
        """One cluster, without its details."""
        shown = await self._cache.one(cluster_id)
        if shown is None:
            return _encode(await self.look(caller, cluster_id))
        shown.acl.require(caller, Permission.CAN_ATTACH_TO, to="see")
        if not shown.lasting:
            return await self._moving(caller, cluster_id, shown)
        if shown.deadlines is None:
            return shown.json
        left = _encode(shown.deadlines.seconds_left(self._clock.now_ms()))
        return shown.json.replace(_LEFT + b"null", _LEFT + left, 1)

    async def list(self, caller: Caller, request: ListV1Clusters) -> bytes:
        """One page of clusters."""
        viewer, now = self.viewer(), self._clock.now_ms()

        def work(tx: Tx) -> listing.Page:
            visible = self._authorizer.visible(tx, caller, ObjectKind.CLUSTER)
            return listing.page(tx, request, viewer, visible=visible, offers=self._offers, now=now)

        page = await self._store.read(work)
        shown = [msgspec.Raw(each.json) for each in await self._cache.many(page.cluster_ids)]
        return _encode({"clusters": shown, "pagination": page.pagination})

    async def look(self, caller: Caller, cluster_id: str) -> V1Cluster:
        """One cluster as it is now."""
        return await self._store.read(lambda tx: self.viewer().one(tx, self._seen(tx, caller, cluster_id)))

    async def operation(self, caller: Caller, cluster_id: str, operation_id: str) -> Operation:
        """The cluster's last operation, if it has that id. Earlier ones are not kept: events tell of them."""
        found = last_of(await self.look(caller, cluster_id))
        if found.id != operation_id:
            raise ResourceNotFound(
                f"Cluster {cluster_id} has no operation {operation_id[:140]}. Its last one is {found.id}; others are not kept.",
                resource="operation",
                id=operation_id[:140],
            )
        return found

    async def follow(self, caller: Caller, cluster_id: str) -> Following:
        """A stream of the cluster's operation, until it has ended. Close it after use. Raises QuotaExceeded."""
        slot = self._streams.enter(STREAMS, caller, error=QuotaExceeded)
        try:
            since_ms = self._wall.now_ms()
            known = last_of(await self.look(caller, cluster_id))
        except BaseException:
            slot.release()
            raise
        return Following(
            caller, store=self._store, bells=self.bells, cluster_id=cluster_id, known=known, since_ms=since_ms, operations=self,
            slot=slot,
        )  # fmt: skip

    def viewer(self) -> Viewer:
        """Shows clusters as they are now."""
        return Viewer(node_types=self._offers.node_types(), currency=self._currency, now=self._clock.now_ms(), ports=self._ports)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _moving(self, caller: Caller, cluster_id: str, shown: _Shown) -> bytes:
        """A cluster that looks different every moment, as it was at most a second ago. Requests that come meanwhile share a look,
        unless the cluster has changed: then another `shown` is cached."""
        now = self._clock.now_ms()
        found = self._looks.get(cluster_id)
        if found is None or found.of is not shown or now >= found.until_ms or _failed(found.json):
            if len(self._looks) >= MOST_LOOKS:
                self._looks.clear()
            found = self._looks[cluster_id] = _Look(shown, now + LOOK_MS, asyncio.ensure_future(self._json(caller, cluster_id)))
        return await asyncio.shield(found.json)

    async def _json(self, caller: Caller, cluster_id: str) -> bytes:
        return _encode(await self.look(caller, cluster_id))

    def _seen(self, tx: Tx, caller: Caller, cluster_id: str) -> Cluster:
        return permitted(tx, self._authorizer, caller, cluster_id, Permission.CAN_ATTACH_TO, to="see")

    def still(self, tx: Tx, caller: Caller, cluster_id: str, *, since_ms: int) -> Operation | None:
        """The operation, for a caller whose token is still valid and who may still see it; else None."""
        current = renewed(tx, caller, now_ms=self._wall.now_ms(), made_by_ms=since_ms)
        return None if current is None else self.viewer().operation(tx, self._seen(tx, current, cluster_id))

    def views(self, tx: Tx, cluster_ids: Sequence[str]) -> dict[str, _Shown]:
        """Those of the clusters that exist, for the cache."""
        clusters, instances = tx.clusters.many(cluster_ids), tx.instances.of_clusters(cluster_ids)
        ports, viewer = tx.ports.of_clusters(cluster_ids), self.viewer()
        existing = [cluster for cluster in clusters.values() if not cluster.deleted_ms]
        acls = self._authorizer.acls(tx, [of_cluster(cluster) for cluster in existing])
        found = {}
        for cluster, acl in zip(existing, acls, strict=True):
            nodes = instances[cluster.cluster_id]
            view = viewer.view(cluster, nodes, ports[cluster.cluster_id])
            found[cluster.cluster_id] = self._shown(cluster, nodes, view, acl)
        return found

    def _shown(self, cluster: Cluster, nodes: Sequence[Instance], view: V1Cluster, acl: Acl) -> _Shown:
        ongoing = view.operation is not None and view.operation.status is PhaseStatus.IN_PROGRESS
        now = self._clock.now_ms()
        ends = deadlines(cluster, nodes, now=now, spent=None, ahead_ms=self._wall.now_ms() - now)
        return _Shown(_encode(view), acl, not (ongoing or cluster.workbench.auto_terminate.max_cost), ends)


def _failed(look: asyncio.Future[bytes]) -> bool:
    return look.done() and (look.cancelled() or look.exception() is not None)


def last_of(view: V1Cluster) -> Operation:
    """The cluster's last operation."""
    if view.operation is None:
        raise ResourceNotFound(f"Cluster {view.id} was never started.", resource="operation", id="")
    return view.operation
