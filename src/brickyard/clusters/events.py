"""Events of a cluster: filters, order and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.missing import missing_cluster
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError, InvalidParameterValue
from brickyard.domain.events import ClusterEvent
from brickyard.domain.pagetokens import EventCursor, encode, event_cursor
from brickyard.domain.queries import EventFilter, EventPosition
from brickyard.domain.requests import GetEvents
from brickyard.domain.states import GetEventsOrder
from brickyard.domain.views import GetEventsResponse
from brickyard.store.store import Store
from brickyard.store.tx import Tx

DEFAULT_EVENTS, MAX_EVENTS = 50, 500
_Rows = Sequence[tuple[EventPosition, ClusterEvent]]


class ClusterEvents:
    """`clusters/events`."""

    def __init__(self, *, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def page(self, caller: Caller, request: GetEvents) -> GetEventsResponse:
        """One page, with the complete next request if there are more. Raises ApiError."""
        window = _window(request)
        which = EventFilter(
            cluster_id=request.cluster_id,
            types=tuple(request.event_types or ()),
            start_ms=request.start_time or 0,
            end_ms=request.end_time or 0,
        )

        def work(tx: Tx) -> tuple[_Rows, int | None] | ApiError:
            cluster = tx.clusters.get(request.cluster_id)
            if cluster is None or cluster.deleted_ms:
                return missing_cluster(tx, request.cluster_id)
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(cluster), to="see the events of")
            # One more row than is shown tells whether there are more.
            rows = tx.events.page(
                which,
                descending=window.descending is not window.backward,  # backward reads in the opposite order
                limit=window.limit + 1,
                offset=window.offset,
                after=window.cursor.at if window.cursor else None,
            )
            # Counting by type reads all matches: only where clients page by offset and need it [databricks-sdk, `total_count`].
            return rows, None if which.types and window.cursor else tx.events.count(which)

        found = await self._store.read(work)
        if isinstance(found, ApiError):
            raise found
        return _response(request, window, *found)


class _Window(NamedTuple):
    """The part of the events that a request asks for. A page token takes precedence over an offset."""

    descending: bool
    limit: int
    offset: int
    cursor: EventCursor | None

    @property
    def backward(self) -> bool:
        return self.cursor is not None and self.cursor.backward


def _window(request: GetEvents) -> _Window:
    descending = request.order is not GetEventsOrder.ASC
    offset = request.offset or 0
    if offset < 0:
        raise InvalidParameterValue(f"offset is {offset}; it must not be negative.")
    if offset and descending and not request.end_time:
        raise InvalidParameterValue("offset with order DESC needs end_time: new events would shift the pages.")
    if request.start_time and request.end_time and request.start_time > request.end_time:
        raise InvalidParameterValue(f"start_time {request.start_time} is after end_time {request.end_time}.")
    cursor = event_cursor(request.page_token, descending=descending)
    return _Window(descending, _limit(request), 0 if cursor else offset, cursor)


def _limit(request: GetEvents) -> int:
    """`page_size` is clamped to its range and takes precedence; the older `limit` is refused if out of range [databricks-sdk]."""
    if request.page_size is not None and request.page_size > 0:
        return min(request.page_size, MAX_EVENTS)
    limit = DEFAULT_EVENTS if request.limit is None else request.limit
    if not 1 <= limit <= MAX_EVENTS:
        raise InvalidParameterValue(f"limit is {limit}; it must be between 1 and {MAX_EVENTS}.")
    return limit


def _response(request: GetEvents, window: _Window, rows: _Rows, total: int | None) -> GetEventsResponse:
    more, shown = len(rows) > window.limit, list(rows[: window.limit])
    if window.backward:
        shown.reverse()
    response = GetEventsResponse(events=[event for _, event in shown], total_count=total)
    if not shown:
        return response
    # A request with a page token comes from the adjacent page, so that page exists.
    if more if window.backward else window.cursor is not None:
        before = encode(EventCursor(window.descending, True, shown[0][0]))
        response = msgspec.structs.replace(response, prev_page_token=before)
    if more or window.backward:
        token = encode(EventCursor(window.descending, False, shown[-1][0]))
        following = _following(request, window, [event for _, event in shown], token)
        response = msgspec.structs.replace(response, next_page=following, next_page_token=token)
    return response


def _following(request: GetEvents, window: _Window, shown: Sequence[ClusterEvent], token: str) -> GetEvents:
    """The complete request for the next page.

    Clients send it back unchanged. Older ones know no tokens and only keep its offset, so clients that began without a token or
    `page_size` get both; the end time then keeps new events from shifting their pages.
    """
    following = msgspec.structs.replace(request, page_token=token)
    if request.page_size or (request.page_token and request.offset is None):
        return msgspec.structs.replace(following, offset=None)
    return msgspec.structs.replace(
        following,
        limit=window.limit,
        offset=(request.offset or 0) + len(shown),
        end_time=request.end_time or (shown[0].timestamp if window.descending else None),
    )
