"""Rows of the audit log."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, tuple_, update

from brickyard.domain.audit import AuditEntry, AuditFilter, AuditPosition
from brickyard.store.prepared import Keeper, Kept, Prepared, driver_execute
from brickyard.store.tables import audit as t

MOST_LOOKED_AT = 1_000  # rows for one page: filters that no index has together must not make a page slow
MAX_NAME = 320  # characters of an object's name that are compared; the document has all of it

_decode = msgspec.json.Decoder(AuditEntry).decode
_encode = msgspec.json.Encoder().encode
_INSERT = Prepared(
    insert(t).returning(t.c.id), set(t.c.keys()) - {"id"}, returns_id=True
)  # SQLite knows RETURNING only since 3.35
_SQLITE_INSERT = "INSERT INTO audit (time, user_name, operation, object_id, doc) VALUES (?, ?, ?, ?, ?)"
_BY_ID = select(t.c.doc).where(t.c.id == bindparam("row"))


class Found(NamedTuple):
    """`after` is where the next page begins; None if there is none."""

    entries: list[AuditEntry]
    after: AuditPosition | None


class AuditRows:
    """The audit log within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, entry: AuditEntry) -> Kept:
        """Adds an entry. It has its id after the commit."""
        columns = _columns(entry)
        if isinstance(self._connection, Keeper) or self._connection.dialect.name == "postgresql":
            return _INSERT.insert(self._connection, **columns)
        row = Kept(_INSERT, columns)
        row.id = int(driver_execute(self._connection, _SQLITE_INSERT, tuple(columns.values())).lastrowid)
        return row

    def change(self, row: int, **values: Any) -> None:
        """Replaces parts of an entry: what is known only after its commit."""
        doc = self._connection.execute(_BY_ID, {"row": row}).scalar()
        if doc is not None:
            changed = msgspec.structs.replace(_decode(doc), **values)
            self._connection.execute(update(t).where(t.c.id == row).values(_columns(changed)))

    def page(self, which: AuditFilter, *, limit: int, after: AuditPosition | None = None) -> Found:
        """At most `limit` entries, newest first, strictly after a position. Looks at no more than MOST_LOOKED_AT rows, so a page
        with few entries may not be the last."""
        indexed = _narrowest(which)
        rest = {name: value for name in ("object_id", "user_name", "operation") if (value := getattr(which, name))}
        rest.pop(indexed, None)
        query = select(t.c.time, t.c.id, t.c.user_name, t.c.operation, t.c.object_id, t.c.doc).where(*_times(which))
        if indexed:
            query = query.where(t.c[indexed] == getattr(which, indexed)[:MAX_NAME])
        if after is not None:
            query = query.where(tuple_(t.c.time, t.c.id) < tuple_(after.time, after.id))
        looked_at = max(MOST_LOOKED_AT, limit + 1) if rest else limit + 1
        rows = self._connection.execute(query.order_by(t.c.time.desc(), t.c.id.desc()).limit(looked_at)).mappings().all()
        fit = [row for row in rows if all(row[name] == value[:MAX_NAME] for name, value in rest.items())]
        last = fit[limit - 1] if len(fit) > limit else rows[-1] if len(rows) == looked_at else None
        entries = [msgspec.structs.replace(_decode(row["doc"]), id=row["id"]) for row in fit[:limit]]
        return Found(entries, None if last is None else AuditPosition(last["time"], last["id"]))

    def trim(self, before_ms: int, limit: int) -> int:
        """Removes entries older than `before_ms`, the oldest first and at most `limit`; returns how many."""
        oldest = select(t.c.id).where(t.c.time < before_ms).order_by(t.c.time, t.c.id).limit(limit)
        return self._connection.execute(delete(t).where(t.c.id.in_(oldest))).rowcount


def _narrowest(which: AuditFilter) -> str:
    """The column whose index is used."""
    return next((name for name in ("object_id", "user_name", "operation") if getattr(which, name)), "")


def _times(which: AuditFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if which.start_ms:
        conditions.append(t.c.time >= which.start_ms)
    if which.end_ms:
        conditions.append(t.c.time <= which.end_ms)
    return conditions


def _columns(entry: AuditEntry) -> dict[str, Any]:
    return {
        "time": entry.time,
        "user_name": entry.user_name[:MAX_NAME],
        "operation": entry.operation,
        "object_id": entry.object_id[:MAX_NAME],
        "doc": _encode(entry).decode(),
    }
