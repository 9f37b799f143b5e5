"""Rows of jobs. The next scheduled run is the column `due_ms`."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update

from brickyard.domain.access import ObjectKind, Visible
from brickyard.domain.queries import JobPosition
from brickyard.features.jobs.arrivals import Watched
from brickyard.features.jobs.model import JobRow
from brickyard.store.due import Due, DueRows
from brickyard.store.grants import granted, seen
from brickyard.store.tables import job_triggers as triggers
from brickyard.store.tables import jobs as t

_decode = msgspec.json.Decoder(JobRow).decode
_decode_watched = msgspec.json.Decoder(Watched).decode
_encode = msgspec.json.Encoder().encode
_GET = select(t.c.doc).where(t.c.job_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()


class JobRows(DueRows[int]):
    """Rows within one transaction. Lock order: the job, then its runs."""

    _due = Due(t, t.c.job_id)

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._get = _GET_LOCKED if locking else _GET

    def get(self, job_id: int) -> JobRow | None:
        """The job. Inside `write` the row is locked until the commit."""
        doc = self._connection.execute(self._get, {"id": job_id}).scalar()
        return None if doc is None else _decode(doc)

    def insert(self, row: JobRow) -> None:
        """Inserts a job, due at its next run. Raises IntegrityError if its id is taken."""
        self._connection.execute(insert(t), {"job_id": row.job_id, "created_ms": row.created_ms, **_columns(row)})

    def update(self, row: JobRow) -> None:
        """Writes the whole row; it is due at its next run."""
        row = msgspec.structs.replace(row, version=row.version + 1)
        self._connection.execute(update(t).where(t.c.job_id == row.job_id).values(_columns(row)))

    def delete(self, job_id: int) -> None:
        self._connection.execute(delete(t).where(t.c.job_id == job_id))

    def count(self) -> int:
        return self._connection.execute(select(func.count()).select_from(t)).scalar_one()

    def page(
        self, *, visible: Visible, name: str, newest_first: bool, limit: int, offset: int, after: JobPosition | None
    ) -> list[JobRow]:
        """At most `limit` jobs in the order of their creation, strictly after `after`, or after skipping `offset`."""
        query = select(t.c.created_ms, t.c.job_id, t.c.doc)
        if name:
            query = query.where(func.lower(t.c.name) == name.lower())
        if after is not None:
            row, at = (t.c.created_ms, t.c.job_id), (after.created_ms, after.job_id)
            behind, tie = (row[0] < at[0], row[1] < at[1]) if newest_first else (row[0] > at[0], row[1] > at[1])
            query = query.where(or_(behind, and_(row[0] == at[0], tie)))
        shared = t.c.job_id.in_(granted(ObjectKind.JOB, visible.holders))
        query = query.where(or_(*seen(visible, t.c.owner, shared)))
        order = (t.c.created_ms.desc(), t.c.job_id.desc()) if newest_first else (t.c.created_ms, t.c.job_id)
        found = self._connection.execute(query.order_by(*order).limit(limit).offset(offset))
        return [_decode(row.doc) for row in found]


class TriggerRows:
    """What jobs' triggers by files and tables have seen. Lock order: the job, then its trigger."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        del locking  # the job is locked
        self._connection = connection

    def get(self, job_id: int) -> Watched | None:
        doc = self._connection.execute(select(triggers.c.doc).where(triggers.c.job_id == job_id)).scalar()
        return None if doc is None else _decode_watched(doc)

    def put(self, job_id: int, watched: Watched) -> None:
        doc = _encode(watched).decode()
        if self._connection.execute(update(triggers).where(triggers.c.job_id == job_id).values(doc=doc)).rowcount == 0:
            self._connection.execute(insert(triggers), {"job_id": job_id, "doc": doc})

    def delete(self, job_id: int) -> None:
        self._connection.execute(delete(triggers).where(triggers.c.job_id == job_id))


def _columns(row: JobRow) -> dict[str, object]:
    return {
        "name": row.settings.name or "",
        "owner": row.owned_by,
        "due_ms": row.next_ms or None,
        "doc": _encode(row).decode(),
    }
