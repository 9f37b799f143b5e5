"""Rows of events: append-only, in the order of their time and then of their writing."""

from __future__ import annotations

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, or_, select

from brickyard.domain.events import ClusterEvent
from brickyard.domain.queries import EventFilter, EventPosition
from brickyard.store.tables import events as t

_decode = msgspec.json.Decoder(ClusterEvent).decode
_encode = msgspec.json.Encoder().encode

_INSERT = insert(t)
_DELETE = delete(t).where(t.c.cluster_id == bindparam("id"))


class EventRows:
    """Events of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, event: ClusterEvent) -> None:
        self._connection.execute(
            _INSERT,
            {
                "cluster_id": event.cluster_id,
                "timestamp": event.timestamp,
                "type": event.type.value,
                "doc": _encode(event).decode(),
            },
        )

    def page(
        self, which: EventFilter, *, descending: bool = True, limit: int, offset: int = 0, after: EventPosition | None = None
    ) -> list[tuple[EventPosition, ClusterEvent]]:
        """At most `limit` matching events with their positions, strictly behind `after`, or after skipping `offset`."""
        query = select(t.c.timestamp, t.c.seq, t.c.doc).where(*_matches(which))
        if after is not None:
            behind, tie = (
                (t.c.timestamp < after.timestamp, t.c.seq < after.seq)
                if descending
                else (t.c.timestamp > after.timestamp, t.c.seq > after.seq)
            )
            query = query.where(or_(behind, and_(t.c.timestamp == after.timestamp, tie)))
        order = (t.c.timestamp.desc(), t.c.seq.desc()) if descending else (t.c.timestamp.asc(), t.c.seq.asc())
        query = query.order_by(*order).limit(limit).offset(offset)
        return [
            (EventPosition(timestamp=timestamp, seq=seq), _decode(doc)) for timestamp, seq, doc in self._connection.execute(query)
        ]

    def count(self, which: EventFilter) -> int:
        return self._connection.execute(select(func.count()).select_from(t).where(*_matches(which))).scalar_one()

    def delete(self, cluster_id: str) -> None:
        """Remove a cluster's events, with the cluster."""
        self._connection.execute(_DELETE, {"id": cluster_id})


def _matches(which: EventFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [t.c.cluster_id == which.cluster_id]
    if which.types:
        conditions.append(t.c.type.in_([kind.value for kind in which.types]))
    if which.start_ms:
        conditions.append(t.c.timestamp >= which.start_ms)
    if which.end_ms:
        conditions.append(t.c.timestamp <= which.end_ms)
    return conditions
