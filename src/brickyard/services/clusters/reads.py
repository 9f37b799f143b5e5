"""What can be read of clusters: one, many, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brickyard.domain.clock import Clock
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.requests import GetEvents, ListClusters
from brickyard.domain.views import GetEventsResponse
from brickyard.services.authz import Action, Authorizer
from brickyard.services.caller import Caller
from brickyard.services.clusterevents import ClusterEvents
from brickyard.services.firstlook import FirstLook
from brickyard.services.listing import ClusterLists
from brickyard.services.missing import missing_cluster
from brickyard.services.viewcache import ViewCache
from brickyard.store.store import Store


class ClusterReads:
    """One per server. Bytes are JSON. Methods raise ApiError."""

    def __init__(
        self, *, store: Store, clock: Clock, sizes: Callable[[], Mapping[str, NodeType]], authorizer: Authorizer
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._views = ViewCache(store=store, sizes=sizes)
        self._lists = ClusterLists(store=store, clock=clock, views=self._views)
        self._events = ClusterEvents(store=store)
        self._first_look = FirstLook(store=store)

    def changed(self, cluster_id: str) -> None:
        """Something was asked of the cluster now: the next `get` may wait a moment for what comes of it."""
        self._first_look.begin(cluster_id)

    async def get(self, caller: Caller, cluster_id: str) -> bytes:
        """One cluster."""
        if self._first_look.due(cluster_id):
            self._authorizer.require(caller, Action.VIEW)
            await self._first_look.settle(cluster_id)
        view = await self._views.full(cluster_id)
        if view is None:
            raise await self._store.read(lambda tx: missing_cluster(tx, cluster_id))
        self._authorizer.require(caller, Action.VIEW)
        return view

    async def list(self, caller: Caller, request: ListClusters, *, paged: bool) -> bytes:
        """Clusters: one page, or all of them for clients that do not page."""
        self._authorizer.require(caller, Action.VIEW)
        return await self._lists.page(request, paged=paged)

    async def events(self, caller: Caller, request: GetEvents) -> GetEventsResponse:
        """What happened to a cluster."""
        self._authorizer.require(caller, Action.VIEW)
        return await self._events.page(request)
