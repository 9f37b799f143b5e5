"""Lists of clusters and of events: filters, orders and pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TypeVar

import msgspec

from brickyard.domain.clock import Clock
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import ApiError, InvalidParameterValue
from brickyard.domain.events import ClusterEvent
from brickyard.domain.queries import (
    ClusterFilter,
    ClusterOrder,
    ClusterPosition,
    ClusterSort,
    EventFilter,
    EventPosition,
)
from brickyard.domain.requests import GetEvents, ListClusters
from brickyard.domain.states import GetEventsOrder, ListClustersSortByDirection, ListClustersSortByField
from brickyard.domain.views import GetEventsResponse
from brickyard.services.viewcache import ViewCache
from brickyard.store.store import Store
from brickyard.store.tx import Tx

RETENTION_MS = 30 * 24 * 3600 * 1000  # a terminated cluster that is not pinned leaves the list after that
DEFAULT_PAGE, MAX_PAGE = 20, 100
DEFAULT_EVENTS, MAX_EVENTS = 50, 500
T = TypeVar("T")


class ClusterLists:
    """`clusters/list`."""

    def __init__(self, *, store: Store, clock: Clock, views: ViewCache) -> None:
        self._store = store
        self._clock = clock
        self._views = views

    async def page(self, request: ListClusters, *, paged: bool) -> bytes:
        """One page as JSON, or everything in one."""
        size = _bounded(request.page_size or DEFAULT_PAGE, "page_size", MAX_PAGE) if paged else None
        which, sort = self._which(request), _sort(request)
        after = _decode_token(request.page_token, ClusterPosition) if paged and request.page_token else None
        rows = await self._store.read(
            lambda tx: tx.listing.page(which, sort=sort, limit=None if size is None else size + 1, after=after)
        )
        more = size is not None and len(rows) > size
        shown = rows[:size] if size is not None else rows
        items = await self._views.items([row.cluster_id for row in shown])
        head = b'{"clusters":[' + b",".join(items) + b"]" if items else b'{"clusters":[]'
        if more:
            head += b',"next_page_token":' + msgspec.json.encode(_encode_token(shown[-1]))
        return head + b"}"

    def _which(self, request: ListClusters) -> ClusterFilter:
        by = request.filter_by
        return ClusterFilter(
            sources=tuple(by.cluster_sources or ()) if by else (),
            states=tuple(by.cluster_states or ()) if by else (),
            is_pinned=by.is_pinned if by else None,
            policy_id=(by.policy_id or None) if by else None,
            ended_after_ms=self._clock.now_ms() - RETENTION_MS,
        )


class EventLists:
    """`clusters/events`."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def page(self, request: GetEvents, *, unknown: Callable[[str], ApiError]) -> GetEventsResponse:
        """One page, with the whole next request where there is more. Raises InvalidParameterValue."""
        descending = request.order is not GetEventsOrder.ASC
        limit, offset = _event_window(request, descending)
        after = _decode_token(request.page_token, EventPosition) if request.page_token else None
        which = EventFilter(
            cluster_id=request.cluster_id,
            types=tuple(request.event_types or ()),
            start_ms=request.start_time or 0,
            end_ms=request.end_time or 0,
        )

        def work(tx: Tx) -> tuple[Cluster | None, list[tuple[EventPosition, ClusterEvent]], int]:
            rows = tx.events.page(which, descending=descending, limit=limit + 1, offset=offset, after=after)
            return tx.clusters.get(request.cluster_id), rows, tx.events.count(which)

        cluster, rows, total = await self._store.read(work)
        if cluster is None or cluster.deleted_ms:
            raise unknown(request.cluster_id)
        shown = rows[:limit]
        events = [event for _, event in shown]
        if len(rows) <= limit:
            return GetEventsResponse(events=events, total_count=total)
        token = _encode_token(shown[-1][0])
        following = msgspec.structs.replace(request, page_token=token, offset=None)
        return GetEventsResponse(events=events, total_count=total, next_page=following, next_page_token=token)


def _event_window(request: GetEvents, descending: bool) -> tuple[int, int]:
    if request.page_size:
        limit = _bounded(request.page_size, "page_size", MAX_EVENTS)
    else:
        limit = _bounded(DEFAULT_EVENTS if request.limit is None else request.limit, "limit", MAX_EVENTS)
    offset = request.offset or 0
    if offset < 0:
        raise InvalidParameterValue(f"offset is {offset}; it must not be negative.")
    if offset and descending and not request.end_time:
        raise InvalidParameterValue("offset with order DESC needs end_time: new events would shift the pages.")
    if request.start_time and request.end_time and request.start_time > request.end_time:
        raise InvalidParameterValue(f"start_time {request.start_time} is after end_time {request.end_time}.")
    return limit, offset


def _bounded(value: int, name: str, most: int) -> int:
    if not 1 <= value <= most:
        raise InvalidParameterValue(f"{name} is {value}; it must be between 1 and {most}.")
    return value


def _sort(request: ListClusters) -> ClusterSort:
    by = request.sort_by
    name = by is not None and by.field is ListClustersSortByField.CLUSTER_NAME
    direction = by.direction if by is not None else None
    if direction is None:  # newest first, but names from A to Z
        return ClusterSort(by=ClusterOrder.NAME, descending=False) if name else ClusterSort()
    descending = direction is ListClustersSortByDirection.DESC
    return ClusterSort(by=ClusterOrder.NAME if name else ClusterOrder.CREATED, descending=descending)


def _encode_token(position: msgspec.Struct) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _decode_token(token: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=kind)
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise InvalidParameterValue("page_token is not one that this API gave out.") from error
