"""Reads of clusters: one, many, and their events."""

from __future__ import annotations

from brickyard.access import Authorizer
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.events import ClusterEvents
from brickyard.clusters.firstlook import FirstLook
from brickyard.clusters.listing import ClusterLists
from brickyard.clusters.missing import missing_cluster
from brickyard.clusters.viewcache import ViewCache
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.requests import GetEvents, ListClusters
from brickyard.domain.views import GetEventsResponse
from brickyard.store.store import Store


class ClusterReads:
    """One per server. Bytes are JSON. Methods raise ApiError."""

    def __init__(self, *, store: Store, clock: Clock, offers: Offers, authorizer: Authorizer) -> None:
        self._store = store
        self._views = ViewCache(store=store, sizes=offers, authorizer=authorizer)
        self._lists = ClusterLists(store=store, clock=clock, views=self._views, authorizer=authorizer)
        self._events = ClusterEvents(store=store, authorizer=authorizer)
        self._first_look = FirstLook(store=store)

    def changed(self, cluster_id: str) -> None:
        """Records a change request for the cluster: the next `get` may wait a moment for its effect."""
        self._first_look.begin(cluster_id)

    async def get(self, caller: Caller, cluster_id: str) -> bytes:
        """One cluster."""
        view = await self._view(caller, cluster_id)
        if self._first_look.due(cluster_id):
            await self._first_look.settle(cluster_id)
            view = await self._view(caller, cluster_id)
        return view

    async def list(self, caller: Caller, request: ListClusters, *, paged: bool) -> bytes:
        """Clusters: one page, or all of them for clients that do not paginate."""
        return await self._lists.page(caller, request, paged=paged)

    async def events(self, caller: Caller, request: GetEvents) -> GetEventsResponse:
        """A cluster's events."""
        return await self._events.page(caller, request)

    async def _view(self, caller: Caller, cluster_id: str) -> bytes:
        view = self._views.kept(cluster_id) or await self._views.full(cluster_id)
        if view is None:
            raise await self._store.read(lambda tx: missing_cluster(tx, cluster_id))
        view.acl.require(caller, Permission.CAN_ATTACH_TO, to="see")
        return view.json
