"""Rows of notification destinations. There are few."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from brickyard.features.notifications.model import DestinationRow
from brickyard.store.tables import destinations as t

_decode = msgspec.json.Decoder(DestinationRow).decode
_encode = msgspec.json.Encoder().encode


class DestinationRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._locking = locking

    def get(self, destination_id: str) -> DestinationRow | None:
        """The destination. Inside `write` the row is locked until the commit."""
        query = select(t.c.doc).where(t.c.destination_id == destination_id)
        doc = self._connection.execute(query.with_for_update() if self._locking else query).scalar()
        return None if doc is None else _decode(doc)

    def all(self) -> list[DestinationRow]:
        """All destinations, oldest first."""
        rows = map(_decode, self._connection.execute(select(t.c.doc)).scalars())
        return sorted(rows, key=lambda each: (each.created_ms, each.destination_id))

    def insert(self, row: DestinationRow) -> None:
        self._connection.execute(insert(t), {"destination_id": row.destination_id, "doc": _encode(row).decode()})

    def update(self, row: DestinationRow) -> None:
        self._connection.execute(update(t).where(t.c.destination_id == row.destination_id).values(doc=_encode(row).decode()))

    def delete(self, destination_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.destination_id == destination_id))
