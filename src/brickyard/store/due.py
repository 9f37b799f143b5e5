"""When a loop must look at a row: the column `due_ms` of clusters, pools and runs.

Every server uses its own clock. One that is ahead of the others claims rows too early by the difference, which costs a pass that
finds little to do; one that is behind claims them too late by the difference.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, Column, Table, bindparam, case, or_, select, update

from brickyard.store.prepared import Prepared


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
        # Parameters now, limit, until. The same for rows that nobody has locked; they are due again at `until`. Uses WITH, which
        # is evaluated once: a plain subquery may be evaluated again for every row, and take more than its limit.
        free = self.select.with_for_update(skip_locked=True).cte("free")
        self.claim = update(table).where(key.in_(select(free.c[key.name]))).values(due_ms=bindparam("until")).returning(key)
        # Parameters id, now, until. The same for one row, waiting for its lock: whether it was still due.
        self.claim_one = row.where(due <= bindparam("now")).values(due_ms=bindparam("until"))
