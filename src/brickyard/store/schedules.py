"""Rows of schedules. The next run is the column `due_ms`."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from brickyard.domain.gpuschedules import ScheduleRow
from brickyard.store.due import Due
from brickyard.store.tables import schedules as t

_decode = msgspec.json.Decoder(ScheduleRow).decode
_encode = msgspec.json.Encoder().encode
_GET = select(t.c.doc).where(t.c.schedule_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()
_DUE = Due(t, t.c.schedule_id)


class ScheduleRows:
    """Rows within one transaction. Lock order: the cluster, then its schedules."""

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
        _DUE.schedule.run(self._connection, id=schedule_id, at=at_ms)

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Ids of the schedules that are due, longest waiting first."""
        return list(self._connection.execute(_DUE.select, {"now": now_ms, "limit": limit}).scalars())

    def woken(self, limit: int) -> list[str]:
        """Ids of schedules that are due because of a change."""
        return _DUE.woken(self._connection, limit)

    def claim(self, now_ms: int, limit: int, until_ms: int, besides: Collection[str] = ()) -> list[str]:
        """Ids of schedules that are due and that nobody has locked. They are due again at `until_ms`, or as a run decides."""
        return _DUE.claim(self._connection, now_ms=now_ms, limit=limit, until_ms=until_ms, besides=besides)


def _columns(row: ScheduleRow) -> dict[str, object]:
    return {"due_ms": row.next_ms or None, "doc": _encode(row).decode()}
