"""Rows of saved queries."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, tuple_, update

from brickyard.domain.access import ObjectKind, Visible
from brickyard.domain.statements import StatementPosition
from brickyard.features.savedqueries.model import SavedQueryRow
from brickyard.store.grants import granted, seen
from brickyard.store.tables import saved_queries as t

_decode = msgspec.json.Decoder(SavedQueryRow).decode
_encode = msgspec.json.Encoder().encode
_GET = select(t.c.doc).where(t.c.query_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()


class SavedQueryRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._get = _GET_LOCKED if locking else _GET

    def get(self, query_id: str) -> SavedQueryRow | None:
        """The query. Inside `write` the row is locked until the commit."""
        doc = self._connection.execute(self._get, {"id": query_id}).scalar()
        return None if doc is None else _decode(doc)

    def page(self, visible: Visible, *, limit: int, after: StatementPosition | None) -> Sequence[SavedQueryRow]:
        """Those that a list shows, oldest first, strictly after that position."""
        query = select(t.c.doc).order_by(t.c.created_ms, t.c.query_id).limit(limit)
        if visible.holders:
            query = query.where(or_(*seen(visible, t.c.owner, t.c.query_id.in_(granted(ObjectKind.QUERY, visible.holders)))))
        elif not visible.everything:
            query = query.where(t.c.owner == visible.owner)
        if after is not None:
            query = query.where(tuple_(t.c.created_ms, t.c.query_id) > tuple_(after.started_ms, after.statement_id))
        return list(map(_decode, self._connection.execute(query).scalars()))

    def count(self) -> int:
        return self._connection.execute(select(func.count()).select_from(t)).scalar_one()

    def insert(self, row: SavedQueryRow) -> None:
        self._connection.execute(insert(t), {"query_id": row.query_id, "created_ms": row.created_ms, **_columns(row)})

    def update(self, row: SavedQueryRow) -> None:
        self._connection.execute(update(t).where(t.c.query_id == row.query_id).values(_columns(row)))

    def delete(self, query_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.query_id == query_id))


def _columns(row: SavedQueryRow) -> dict[str, object]:
    return {"owner": row.fields.owner_user_name or "", "doc": _encode(row).decode()}
