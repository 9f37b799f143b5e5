"""What servers have heard from agents, shared through the database. A server that is alone keeps this in memory."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, text

from brickyard.store.tables import heard as t
from brickyard.store.tables import instances

_HERE = ""  # a row whose writing proves to the server that judges silence that it can write
_NOW_MS = {
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)",
}
_ROWS = {
    "postgresql": "SELECT r.id, {now} - r.age_ms, r.load FROM json_to_recordset(CAST(:rows AS json))"
    " AS r(id text, age_ms bigint, load text) ORDER BY r.id",
    "sqlite": "SELECT json_extract(value, '$.id'), {now} - json_extract(value, '$.age_ms'), json_extract(value, '$.load')"
    " FROM json_each(:rows) WHERE true",
}
# Every write makes a new mark, even after the database's clock went back. Sorted, so that servers do not deadlock.
_UPSERT = (
    "INSERT INTO heard (instance_id, heard_ms, load) {rows} ON CONFLICT (instance_id) DO UPDATE SET"
    " heard_ms = CASE WHEN excluded.heard_ms > heard.heard_ms THEN excluded.heard_ms ELSE heard.heard_ms + 1 END,"
    " load = CASE WHEN excluded.heard_ms > heard.heard_ms THEN excluded.load ELSE heard.load END"
)
_FIND = "SELECT load FROM heard WHERE instance_id = :id AND heard_ms BETWEEN {now} - :within_ms AND {now} + 1000"

_NOTE = {name: text(_UPSERT.format(rows=rows.format(now=_NOW_MS[name]))) for name, rows in _ROWS.items()}
_LOAD = {name: text(_FIND.format(now=now)) for name, now in _NOW_MS.items()}
_MARKS = select(t.c.instance_id, t.c.heard_ms).where(t.c.instance_id != _HERE)
_PRUNE = delete(t).where(t.c.instance_id != bindparam("here"), t.c.instance_id.not_in(select(instances.c.instance_id)))


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """An agent was heard from `age_ms` ago. `load` is JSON, or null if it reported no load."""

    id: str
    age_ms: int
    load: str | None = None


class HeardRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name

    def note(self, heard: Iterable[Heard]) -> None:
        """Writes all of it in one statement. What another server heard later stays."""
        rows = sorted(heard, key=lambda each: each.id)
        self._connection.execute(_NOTE[self._dialect], {"rows": msgspec.json.encode(rows).decode()})

    def marks(self) -> dict[str, int]:
        """For every instance a number that changes whenever a server hears from its agent. This also writes a row: if nothing can
        be written, what was heard could not be written either, and an unchanged mark means nothing."""
        self.note([Heard(id=_HERE, age_ms=0)])
        return {row[0]: row[1] for row in self._connection.execute(_MARKS)}

    def load(self, instance_id: str, *, within_ms: int) -> str | None:
        """The load that the instance's agent reported, if it was heard from within that time."""
        found = self._connection.execute(_LOAD[self._dialect], {"id": instance_id, "within_ms": within_ms}).scalar()
        return None if found is None else str(found)

    def prune(self) -> None:
        """Removes the rows of instances that no longer exist."""
        self._connection.execute(_PRUNE, {"here": _HERE})
