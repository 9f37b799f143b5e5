"""Lists of clusters: filters, sort orders and pages."""

from __future__ import annotations

import msgspec

from brickyard.access import Authorizer
from brickyard.clusters.viewcache import ViewCache
from brickyard.domain.access import ObjectKind
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import RETENTION_MS
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.pagetokens import ClusterCursor, cluster_cursor, encode
from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterSort
from brickyard.domain.requests import ListClusters
from brickyard.domain.spec import ClusterSpec, WorkloadType
from brickyard.domain.states import ListClustersSortByDirection, ListClustersSortByField
from brickyard.plan.attach import Client, takes
from brickyard.store.store import Store
from brickyard.store.tx import Tx

DEFAULT_PAGE, MAX_PAGE = 20, 100


class ClusterLists:
    """`clusters/list`."""

    def __init__(self, *, store: Store, clock: Clock, views: ViewCache, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._clock = clock
        self._views = views

    async def page(self, caller: Caller, request: ListClusters, *, paged: bool) -> bytes:
        """One page as JSON, or everything at once. Raises InvalidParameterValue.

        `can_use_client` omits clusters that do not accept that kind of work, so a page may have fewer items.
        """
        client = _client(request.can_use_client)
        which, sort = self._which(request), _sort(request)
        if not paged:
            every = await self._store.read(lambda tx: tx.listing.page(self._shown(tx, caller, which), sort=sort))
            return _body(_usable(await self._views.items([row.cluster_id for row in every]), client))
        size = page_size(request.page_size)
        cursor = cluster_cursor(request.page_token, sort)
        backward = cursor is not None and cursor.backward
        reading = ClusterSort(by=sort.by, descending=sort.descending is not backward)  # backward reads in the opposite order
        # One more row than is shown tells whether there are more.
        rows = await self._store.read(
            lambda tx: tx.listing.page(
                self._shown(tx, caller, which), sort=reading, limit=size + 1, after=cursor.at if cursor else None
            )
        )
        more, shown = len(rows) > size, rows[:size]
        if backward:
            shown.reverse()
        items = await self._views.items([row.cluster_id for row in shown])

        def token(there: bool, row: int, *, back: bool) -> str:
            return encode(ClusterCursor(sort.by, sort.descending, back, shown[row])) if there and shown else ""

        # A request with a page token comes from the adjacent page, so that page exists.
        return _body(
            _usable(items, client),
            next_page_token=token(more or backward, -1, back=False),
            prev_page_token=token(more if backward else cursor is not None, 0, back=True),
        )

    def _shown(self, tx: Tx, caller: Caller, which: ClusterFilter) -> ClusterFilter:
        """Restricts the filter to clusters that the caller may see."""
        return msgspec.structs.replace(which, visible=self._authorizer.visible(tx, caller, ObjectKind.CLUSTER))

    def _which(self, request: ListClusters) -> ClusterFilter:
        by = request.filter_by
        return ClusterFilter(
            sources=tuple(by.cluster_sources or ()) if by else (),
            states=tuple(by.cluster_states or ()) if by else (),
            is_pinned=by.is_pinned if by else None,
            policy_id=(by.policy_id or None) if by else None,
            ended_after_ms=self._clock.now_ms() - RETENTION_MS,
        )


class _Workload(msgspec.Struct):
    """The only field of an item that `can_use_client` needs."""

    workload_type: WorkloadType | None = None


_workload = msgspec.json.Decoder(_Workload).decode


_ASKED = {str(each): each for each in (Client.JOBS, Client.NOTEBOOKS)}


def _client(asked: str | None) -> Client | None:
    if not asked:
        return None
    try:
        return _ASKED[asked.lower()]
    except KeyError as error:
        raise InvalidParameterValue(f"can_use_client is {asked[:60]!r}; it must be JOBS or NOTEBOOKS.") from error


def _usable(items: list[bytes], client: Client | None) -> list[bytes]:
    if client is None:
        return items
    return [item for item in items if takes(ClusterSpec(workload_type=_workload(item).workload_type), client)]


def page_size(asked: int | None) -> int:
    """The size of a page. At most MAX_PAGE: the server may return smaller pages than requested [databricks-sdk, `list`]."""
    if (asked or 0) < 0:
        raise InvalidParameterValue(f"page_size is {asked}; it must be between 1 and {MAX_PAGE}.")
    return min(asked or DEFAULT_PAGE, MAX_PAGE)


def _sort(request: ListClusters) -> ClusterSort:
    by = request.sort_by
    name = by is not None and by.field is ListClustersSortByField.CLUSTER_NAME
    direction = by.direction if by is not None else None
    if direction is None:  # newest first, but names from A to Z
        return ClusterSort(by=ClusterOrder.NAME, descending=False) if name else ClusterSort()
    descending = direction is ListClustersSortByDirection.DESC
    return ClusterSort(by=ClusterOrder.NAME if name else ClusterOrder.CREATED, descending=descending)


def _body(items: list[bytes], **tokens: str) -> bytes:
    """Assembles the response from encoded items. Omits empty tokens: clients stop when there is none."""
    tail = b"".join(b',"%s":%s' % (name.encode(), msgspec.json.encode(token)) for name, token in tokens.items() if token)
    return b'{"clusters":[' + b",".join(items) + b"]" + tail + b"}"
