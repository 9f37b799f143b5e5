"""When a loop must look at a row: the column `due_ms` of clusters, pools and runs.

Every server uses its own clock. One that is ahead of the others claims rows too early by the difference, which costs a pass that
finds little to do; one that is behind claims them too late by the difference.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import BindParameter, Column, Connection, Table, bindparam, case, or_, select, update

from brickyard.store.prepared import Prepared

WOKEN = 0  # the `due_ms` of a row that is due because of a change


class Due:
    """The statements for one table, built once so that they are compiled once. `key` is its primary key."""

    def __init__(self, table: Table, key: Column[Any]) -> None:
        due = table.c.due_ms
        at: BindParameter[int | None] = bindparam("at")
        row = update(table).where(key == bindparam("id"))
        # Parameters id, at. A wake never postpones a row that is due sooner.
        self.wake = Prepared(row.values(due_ms=case((or_(due.is_(None), due > at), at), else_=due)))
        # Parameters id, at.
        self.schedule = Prepared(row.values(due_ms=at))
        # Parameters now, limit. The ids of the rows that are due, longest waiting first.
        self.select = select(key).where(due <= bindparam("now")).order_by(due).limit(bindparam("limit"))
        # Parameter limit. The ids of the rows that are due because of a change.
        self._woken = select(key).where(due <= WOKEN).limit(bindparam("limit"))
        # Parameters now, limit, until, besides. Like `select`, for rows that nobody has locked; they are due again at `until`.
        # Uses WITH, which is evaluated once: a plain subquery may be evaluated again for every row, and take more than its limit.
        others = key.not_in(bindparam("besides", expanding=True))
        free = self.select.where(others).with_for_update(skip_locked=True).cte("free")
        self._claim = update(table).where(key.in_(select(free.c[key.name]))).values(due_ms=bindparam("until")).returning(key)
        # Parameters id, now, until. The same for one row, waiting for its lock: whether it was still due.
        self.claim_one = row.where(due <= bindparam("now")).values(due_ms=bindparam("until"))

    def woken(self, connection: Connection, limit: int) -> list[Any]:
        """The ids of rows that are due because of a change."""
        return list(connection.execute(self._woken, {"limit": limit}).scalars())

    def claim(self, connection: Connection, *, now_ms: int, limit: int, until_ms: int, besides: Collection[Any]) -> list[Any]:
        """The ids of rows that are due and that nobody has locked, except those `besides`; they are due again at `until_ms`."""
        values = {"now": now_ms, "limit": limit, "until": until_ms, "besides": list(besides)}
        return list(connection.execute(self._claim, values).scalars())
