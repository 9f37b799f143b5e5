"""Rows of statements that run, or whose results are kept."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from brickyard.features.statements.model import StatementRow
from brickyard.store.tables import statements as t

_decode = msgspec.json.Decoder(StatementRow).decode
_encode = msgspec.json.Encoder().encode
_GET = select(t.c.doc).where(t.c.statement_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()


class StatementRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._get = _GET_LOCKED if locking else _GET

    def get(self, statement_id: str) -> StatementRow | None:
        """The statement. Inside `write` the row is locked until the commit."""
        doc = self._connection.execute(self._get, {"id": statement_id}).scalar()
        return None if doc is None else _decode(doc)

    def insert(self, row: StatementRow) -> None:
        self._connection.execute(insert(t), {"statement_id": row.statement_id, **_columns(row)})

    def update(self, row: StatementRow) -> None:
        self._connection.execute(update(t).where(t.c.statement_id == row.statement_id).values(_columns(row)))

    def delete(self, statement_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.statement_id == statement_id))

    def expired(self, now_ms: int, *, limit: int) -> list[str]:
        """Ids of statements to be forgotten, oldest first."""
        query = select(t.c.statement_id).where(t.c.expires_ms <= now_ms).order_by(t.c.expires_ms).limit(limit)
        return list(self._connection.execute(query).scalars())


def _columns(row: StatementRow) -> dict[str, object]:
    return {"expires_ms": row.expires_ms, "doc": _encode(row).decode()}
