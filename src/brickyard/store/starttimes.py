"""How long recent starts of clusters took, by kind: for estimates."""

from __future__ import annotations

import statistics

from sqlalchemy import Connection, bindparam, delete, insert, select

from brickyard.store.prepared import Prepared, driver_execute
from brickyard.store.tables import start_times as t

USED = 20  # newest ones of a kind that an estimate is made of; of each kind not many more are kept
_TRIM_EVERY = 10
_ADD = Prepared(insert(t).returning(t.c.id), ("kind", "took_ms"), returns_id=True)  # SQLite knows RETURNING only since 3.35
_SQLITE_ADD = "INSERT INTO start_times (kind, took_ms) VALUES (?, ?)"
_NEWEST = Prepared(select(t.c.took_ms).where(t.c.kind == bindparam("kind")).order_by(t.c.id.desc()).limit(USED))


class StartTimeRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, kind: str, took_ms: int) -> None:
        """Records a start that has succeeded, and from time to time forgets the oldest ones of its kind."""
        if self._connection.dialect.name == "sqlite":
            added = int(driver_execute(self._connection, _SQLITE_ADD, (kind, took_ms)).lastrowid)
        else:
            added = _ADD.insert(self._connection, kind=kind, took_ms=took_ms).id
        if added % _TRIM_EVERY == 0:
            newest = select(t.c.id).where(t.c.kind == kind).order_by(t.c.id.desc()).limit(USED)
            self._connection.execute(delete(t).where(t.c.kind == kind, t.c.id < min(self._connection.execute(newest).scalars())))

    def usual_ms(self, kind: str) -> int | None:
        """The median; None if nothing of the kind has started yet."""
        took = [row[0] for row in _NEWEST.all(self._connection, kind=kind)]
        return int(statistics.median(took)) if took else None
