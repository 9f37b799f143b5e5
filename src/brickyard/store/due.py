"""When a loop must look at a row: the column `due_ms` of clusters, pools and runs alike."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, Column, Table, bindparam, case, or_, select, update


class Due:
    """The statements for one table, made once: they are compiled once, too. `key` is its primary key."""

    def __init__(self, table: Table, key: Column[Any]) -> None:
        due = table.c.due_ms
        at: BindParameter[int | None] = bindparam("at")
        row = update(table).where(key == bindparam("id"))
        # Parameters id, at. A wake never postpones what is due sooner.
        self.wake = row.values(due_ms=case((or_(due.is_(None), due > at), at), else_=due))
        # Parameters id, at.
        self.schedule = row.values(due_ms=at)
        # Parameters now, limit. The ids of rows that are due, longest waiting first.
        self.select = select(key).where(due <= bindparam("now")).order_by(due).limit(bindparam("limit"))
