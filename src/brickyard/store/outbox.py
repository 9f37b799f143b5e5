"""Rows of notices that wait to be sent.

At most MAX_WAITING wait for one receiver: a receiver that is dead cannot fill the database.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from brickyard.domain.notifications import Notice
from brickyard.store.tables import outbox as t

MAX_WAITING = 1_000  # notices for one receiver

_decode = msgspec.json.Decoder(Notice).decode
_encode = msgspec.json.Encoder().encode


class OutboxRows:
    """Rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._locking = locking

    def add(self, notices: Iterable[Notice]) -> list[Notice]:
        """Inserts notices, due at once. Returns those for which their receiver has too many."""
        refused = []
        for notice in notices:
            count = select(func.count()).select_from(t).where(t.c.receiver == notice.receiver)
            if self._connection.execute(count).scalar_one() >= MAX_WAITING:
                refused.append(notice)
            else:
                row = {"notice_id": notice.notice_id, "receiver": notice.receiver, "due_ms": notice.next_ms}
                self._connection.execute(insert(t), {**row, "doc": _encode(notice).decode()})
        return refused

    def receivers(self, now_ms: int) -> list[str]:
        """The receivers for which notices are due."""
        return list(self._connection.execute(select(t.c.receiver).where(t.c.due_ms <= now_ms).distinct()).scalars())

    def due(self, receiver: str, now_ms: int, limit: int) -> list[Notice]:
        """The notices for a receiver that are due, longest waiting first. Inside `write` they are locked until the commit; those
        that another server has locked are left out."""
        query = select(t.c.doc).where(t.c.receiver == receiver, t.c.due_ms <= now_ms).order_by(t.c.due_ms).limit(limit)
        if self._locking:
            query = query.with_for_update(skip_locked=True)
        return [_decode(doc) for doc in self._connection.execute(query).scalars()]

    def update(self, notice: Notice) -> None:
        row = {"due_ms": notice.next_ms, "doc": _encode(notice).decode()}
        self._connection.execute(update(t).where(t.c.notice_id == notice.notice_id).values(row))

    def delete(self, notice_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.notice_id == notice_id))

    def forget(self, receiver: str) -> None:
        """Deletes all notices for a receiver."""
        self._connection.execute(delete(t).where(t.c.receiver == receiver))

    def waiting(self, receiver: str) -> int:
        """How many notices wait for a receiver."""
        return self._connection.execute(select(func.count()).select_from(t).where(t.c.receiver == receiver)).scalar_one()
