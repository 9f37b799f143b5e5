"""When a loop must look at a row: the column `due_ms` of clusters, pools, runs and schedules.

Every server uses its own clock. One that is ahead of the others claims rows too early by the difference, which costs a pass that
finds little to do; one that is behind claims them too late by the difference.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import BindParameter, Column, Connection, Table, bindparam, case, or_, select, update

from brickyard.store.prepared import Prepared

WOKEN = 0  # the `due_ms` of a row that is due because of a change


Key = TypeVar("Key", str, int)


class Due:
    """The statements for one table, built once so that they are compiled once. `key` is its primary key."""

    def __init__(self, table: Table, key: Column[Any]) -> None:
        due = table.c.due_ms
        at: BindParameter[int | None] = bindparam("at")
        row = update(table).where(key == bindparam("id"))
        # Parameters id, at. A wake never postpones a row that is due sooner.
        later = or_(due.is_(None), due > at)
        self.wake = Prepared(row.values(due_ms=case((later, at), else_=due)))
        # Where writers take turns: writes nothing if the row is due by then. Elsewhere the row's lock is waited for first.
        self.wake_later = Prepared(row.where(later).values(due_ms=at))
        # Parameters id, at.
        self.schedule = Prepared(row.values(due_ms=at))
        # Parameters now, limit. The ids of the rows that are due, longest waiting first.
        self.select = select(key).where(due <= bindparam("now")).order_by(due).limit(bindparam("limit"))
        # Parameter limit. The ids of the rows that are due because of a change.
        self.woken = select(key).where(due <= WOKEN).limit(bindparam("limit"))
        # Parameters now, limit, until, besides. Like `select`, for rows that nobody has locked; they are due again at `until`.
        # Uses WITH, which is evaluated once: a plain subquery may be evaluated again for every row, and take more than its limit.
        others = key.not_in(bindparam("besides", expanding=True))
        free = self.select.where(others).with_for_update(skip_locked=True).cte("free")
        self.claim = update(table).where(key.in_(select(free.c[key.name]))).values(due_ms=bindparam("until")).returning(key)
        # Parameters id, now, until. The same for one row, waiting for its lock: whether it was still due.
        self.claim_one = row.where(due <= bindparam("now")).values(due_ms=bindparam("until"))


class DueRows(Generic[Key]):
    """What rows of such a table have in common, within one transaction. A subclass names its statements, and has a
    connection."""

    _due: ClassVar[Due]
    _connection: Connection

    def wake(self, key: Key, at_ms: int | None = None) -> None:
        """Makes the row due at `at_ms`, or now; never later than it already is."""
        wake = self._due.wake_later if self._connection.dialect.name == "sqlite" else self._due.wake
        wake.run(self._connection, id=key, at=at_ms or 0)

    def schedule(self, key: Key, at_ms: int | None) -> None:
        """Makes the row due at `at_ms`, or only when something wakes it. For the loop itself."""
        self._due.schedule.run(self._connection, id=key, at=at_ms)

    def due(self, now_ms: int, limit: int) -> list[Key]:
        """The keys of the rows that are due, longest waiting first."""
        return list(self._connection.execute(self._due.select, {"now": now_ms, "limit": limit}).scalars())

    def woken(self, limit: int) -> list[Key]:
        """The keys of rows that are due because of a change."""
        return list(self._connection.execute(self._due.woken, {"limit": limit}).scalars())

    def claim(self, now_ms: int, limit: int, until_ms: int, besides: Collection[Key] = ()) -> list[Key]:
        """The keys of rows that are due and that nobody has locked, except those `besides`. They are due again at `until_ms`, or
        as whoever works on them decides."""
        values = {"now": now_ms, "limit": limit, "until": until_ms, "besides": list(besides)}
        return list(self._connection.execute(self._due.claim, values).scalars())
