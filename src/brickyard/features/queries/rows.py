"""Rows of the history, newest first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, insert, or_, select, tuple_, update

from brickyard.domain.statements import StatementPosition
from brickyard.features.queries.model import RUNNING, QueryRow
from brickyard.store.tables import queries as t

_decode = msgspec.json.Decoder(QueryRow).decode
_encode = msgspec.json.Encoder().encode


class Which(NamedTuple):
    """The rows of a list. None: any. `seen_by`: whose own ones, besides those on `monitored` clusters; None: everybody's."""

    seen_by: str | None = None
    monitored: Collection[str] = ()
    ids: Collection[str] | None = None
    statuses: Collection[str] | None = None
    user_ids: Collection[str] | None = None
    cluster_ids: Collection[str] | None = None
    from_ms: int | None = None
    until_ms: int | None = None


class QueryRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        del locking
        self._connection = connection

    def put(self, row: QueryRow) -> None:
        """Insert or replace."""
        changed = self._connection.execute(update(t).where(t.c.query_id == row.query_id).values(_columns(row)))
        if not changed.rowcount:
            self._connection.execute(insert(t), {"query_id": row.query_id, **_columns(row)})

    def get(self, query_id: str) -> QueryRow | None:
        doc = self._connection.execute(select(t.c.doc).where(t.c.query_id == query_id)).scalar()
        return None if doc is None else _decode(doc)

    def page(self, which: Which, *, limit: int, after: StatementPosition | None = None) -> list[QueryRow]:
        """The matching rows, newest first, strictly after that position."""
        query = select(t.c.doc).order_by(t.c.started_ms.desc(), t.c.query_id.desc()).limit(limit)
        if which.seen_by is not None:
            query = query.where(or_(t.c.user_id == which.seen_by, t.c.cluster_id.in_(sorted(which.monitored))))
        for column, values in (
            (t.c.query_id, which.ids),
            (t.c.status, which.statuses),
            (t.c.user_id, which.user_ids),
            (t.c.cluster_id, which.cluster_ids),
        ):
            if values is not None:
                query = query.where(column.in_(sorted(values)))
        if which.from_ms is not None:
            query = query.where(t.c.started_ms >= which.from_ms)
        if which.until_ms is not None:
            query = query.where(t.c.started_ms <= which.until_ms)
        if after is not None:
            query = query.where(tuple_(t.c.started_ms, t.c.query_id) < tuple_(after.started_ms, after.statement_id))
        return list(map(_decode, self._connection.execute(query).scalars()))

    def running(self) -> Sequence[QueryRow]:
        """Those that have no end."""
        return list(map(_decode, self._connection.execute(select(t.c.doc).where(t.c.status == RUNNING)).scalars()))

    def forget(self, before_ms: int) -> None:
        """Remove what began before that time."""
        self._connection.execute(delete(t).where(t.c.started_ms < before_ms))


def _columns(row: QueryRow) -> dict[str, object]:
    return {
        "started_ms": row.started_ms,
        "user_id": row.user_id,
        "cluster_id": row.cluster_id,
        "status": row.status,
        "doc": _encode(row).decode(),
    }
