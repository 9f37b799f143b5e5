"""Event rows: append-only, in the order of writing, which is also the order of their times."""

from __future__ import annotations

import heapq
import sys
from itertools import islice
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, tuple_

from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.queries import EventFilter, EventPosition
from brickyard.store.prepared import Prepared
from brickyard.store.tables import events as t

_decode = msgspec.json.Decoder(ClusterEvent).decode
_encode = msgspec.json.Encoder().encode

_INSERT = Prepared(insert(t), set(t.c.keys()) - {"seq"})
_DELETE = delete(t).where(t.c.cluster_id == bindparam("id"))
_LAST = Prepared(
    select(t.c.timestamp, t.c.number)
    .where(t.c.cluster_id == bindparam("id"))
    .order_by(t.c.timestamp.desc(), t.c.seq.desc())
    .limit(1)
)


class EventRows:
    """Event rows within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: dict[str, tuple[int, int]] = {}  # the time and number of clusters' last events, as far as known

    def begin(self, cluster_id: str) -> None:
        """A cluster was inserted in this transaction, so it has no events."""
        self._last[cluster_id] = (0, 0)

    def append(self, event: ClusterEvent) -> None:
        """Adds an event after the others of its cluster, whose row the caller has locked.

        Its time is never before theirs: a clock that was set back must not reverse the order of events.
        """
        known = self._last.get(event.cluster_id) or _LAST.first(self._connection, id=event.cluster_id)
        latest, number = (known[0], known[1]) if known is not None else (0, 0)
        if event.timestamp < latest:
            event = msgspec.structs.replace(event, timestamp=latest)
        _INSERT.insert(
            self._connection,
            cluster_id=event.cluster_id,
            timestamp=event.timestamp,
            type=event.type.value,
            number=number + 1,
            doc=_encode(event).decode(),
        )
        self._last[event.cluster_id] = (event.timestamp, number + 1)

    def page(
        self, which: EventFilter, *, descending: bool = True, limit: int, offset: int = 0, after: EventPosition | None = None
    ) -> list[tuple[EventPosition, ClusterEvent]]:
        """At most `limit` matching events with their positions, strictly after `after`, or after skipping `offset`."""
        kinds: list[EventType | None] = [*dict.fromkeys(which.types)] or [None]
        # An index gives the events of one type in order, but several types only after sorting all of them. So a page is merged
        # from one query per type.
        skipped = offset if len(kinds) == 1 else 0
        wanted = min(limit + offset - skipped, sys.maxsize)  # what databases take
        parts = [self._part(which, kind, descending, limit=wanted, offset=skipped, after=after) for kind in kinds]
        merged = heapq.merge(*parts, key=_place, reverse=descending)
        rows = islice(merged, offset - skipped, wanted)
        return [(EventPosition(timestamp=timestamp, seq=seq), _decode(doc)) for timestamp, seq, doc in rows]

    def count(self, which: EventFilter) -> int:
        """How many events match. Without types it reads two rows: the numbers of a cluster's events have no gaps."""
        if which.types:
            return self._connection.execute(select(func.count()).select_from(t).where(*_matches(which))).scalar_one()
        numbers = select(t.c.number).where(*_matches(which)).limit(1)
        first = self._connection.execute(numbers.order_by(t.c.timestamp.asc(), t.c.seq.asc())).scalar()
        last = self._connection.execute(numbers.order_by(t.c.timestamp.desc(), t.c.seq.desc())).scalar()
        return 0 if first is None or last is None else last - first + 1

    def delete(self, cluster_id: str) -> None:
        """Removes a cluster's events, when the cluster is removed."""
        self._last.pop(cluster_id, None)
        self._connection.execute(_DELETE, {"id": cluster_id})

    def trim(self, before_ms: int, limit: int) -> int:
        """Removes events of any cluster that are older than `before_ms`, the oldest first and at most `limit`; returns how many.

        Each cluster loses only its oldest events, so the numbers of the remaining ones have no gaps.
        """
        oldest = select(t.c.seq).order_by(t.c.seq).limit(limit)
        return self._connection.execute(delete(t).where(t.c.seq.in_(oldest), t.c.timestamp < before_ms)).rowcount

    def _part(
        self,
        which: EventFilter,
        kind: EventType | None,
        descending: bool,
        *,
        limit: int,
        offset: int,
        after: EventPosition | None,
    ) -> list[tuple[int, int, str]]:
        query = select(t.c.timestamp, t.c.seq, t.c.doc).where(*_matches(which, kind))
        if after is not None:
            here, there = tuple_(t.c.timestamp, t.c.seq), tuple_(after.timestamp, after.seq)
            query = query.where(here < there if descending else here > there)
        order = (t.c.timestamp.desc(), t.c.seq.desc()) if descending else (t.c.timestamp.asc(), t.c.seq.asc())
        query = query.order_by(*order).limit(limit).offset(offset)
        return [(timestamp, seq, doc) for timestamp, seq, doc in self._connection.execute(query)]


def _matches(which: EventFilter, kind: EventType | None = None) -> list[ColumnElement[bool]]:
    """The conditions for an event; `kind` replaces the filter's types."""
    conditions: list[ColumnElement[bool]] = [t.c.cluster_id == which.cluster_id]
    if kind is not None:
        conditions.append(t.c.type == kind.value)
    elif which.types:
        conditions.append(t.c.type.in_([each.value for each in which.types]))
    if which.start_ms:
        conditions.append(t.c.timestamp >= which.start_ms)
    if which.end_ms:
        conditions.append(t.c.timestamp <= which.end_ms)
    return conditions


def _place(row: tuple[Any, ...]) -> tuple[int, int]:
    return row[0], row[1]
