"""Rows of schedules. The next run is the column `due_ms`."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from brickyard.features.schedules.model import ScheduleRow
from brickyard.store.due import Due, DueRows
from brickyard.store.tables import schedules as t

_decode = msgspec.json.Decoder(ScheduleRow).decode
_encode = msgspec.json.Encoder().encode
_GET = select(t.c.doc).where(t.c.schedule_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()


class ScheduleRows(DueRows[str]):
    """Rows within one transaction. Lock order: the cluster, then its schedules."""

    _due = Due(t, t.c.schedule_id)

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._get = _GET_LOCKED if locking else _GET

    def get(self, schedule_id: str) -> ScheduleRow | None:
        """The schedule. Inside `write` the row is locked until the commit."""
        doc = self._connection.execute(self._get, {"id": schedule_id}).scalar()
        return None if doc is None else _decode(doc)

    def of_cluster(self, cluster_id: str) -> list[ScheduleRow]:
        """The schedules of a cluster, oldest first."""
        found = self._connection.execute(select(t.c.doc).where(t.c.cluster_id == cluster_id)).scalars()
        return sorted(map(_decode, found), key=lambda each: (each.created_ms, each.schedule_id))

    def count(self, cluster_id: str) -> int:
        """How many schedules the cluster has."""
        return self._connection.execute(select(func.count()).select_from(t).where(t.c.cluster_id == cluster_id)).scalar_one()

    def insert(self, row: ScheduleRow) -> None:
        """Inserts a schedule, due at its next run."""
        self._connection.execute(insert(t), {"schedule_id": row.schedule_id, "cluster_id": row.cluster_id, **_columns(row)})

    def update(self, row: ScheduleRow) -> None:
        """Writes the whole row; it is due at its next run."""
        self._connection.execute(update(t).where(t.c.schedule_id == row.schedule_id).values(_columns(row)))

    def delete(self, schedule_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.schedule_id == schedule_id))

    def postpone(self, schedule_id: str, at_ms: int) -> None:
        """Looks at the schedule again at that time; the run that is planned stays."""
        self._due.schedule.run(self._connection, id=schedule_id, at=at_ms)


def _columns(row: ScheduleRow) -> dict[str, object]:
    return {"due_ms": row.next_ms or None, "doc": _encode(row).decode()}
