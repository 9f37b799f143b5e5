"""Copies the rows of all tables from one database to another, and compares them.

A copy may be cut off anywhere and be repeated: each part is committed by itself, and one that is there already is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, insert, select, text, tuple_
from sqlalchemy.exc import DataError

from brickyard.store.tables import meta, metadata, servers

PART = 500  # rows; SQLite limits the variables of a statement
TABLES = tuple(table for table in metadata.sorted_tables if table is not servers)  # a server writes its row when it joins


class Progress(NamedTuple):
    """So many of a table's rows are there."""

    table: str
    rows: int
    of: int


Tell = Callable[[Progress], None]


class CopyError(Exception):
    """The rows cannot be copied. The message is one line for an administrator."""


class TableCopy:
    """From a connection that is in a transaction to one that is not. `own`: keys in `meta` of which each database has its own."""

    def __init__(self, source: Connection, target: Connection, *, own: Collection[str], tell: Tell) -> None:
        self._source = source
        self._target = target
        self._own = tuple(own)
        self._tell = tell

    def clear(self) -> None:
        """Removes what is in the target. In the caller's transaction."""
        for table in reversed(TABLES):
            self._target.execute(delete(table).where(*self._shared(table)))

    def copy(self) -> None:
        """Copies what is missing or different. Raises CopyError."""
        for table in TABLES:
            try:
                self._copy(table)
            except DataError as error:
                reason = str(error.orig).strip().splitlines()[0]
                raise CopyError(f"a row of table {table.name} cannot be stored there: {reason}") from error

    def compare(self) -> int:
        """Compares the numbers of rows and all contents; returns how many rows there are. In the caller's transaction. Raises
        CopyError."""
        rows = 0
        for table in TABLES:
            total, there = self._count(self._source, table), self._count(self._target, table)
            if total != there or any(not self._same(table, part) for _, part in self._parts(table, total)):
                raise CopyError(f"table {table.name} has other rows in the copy ({there}) than in the original ({total})")
            rows += total
        return rows

    def number_on(self) -> None:
        """Makes the target number new rows after those that were copied. In the caller's transaction."""
        for table in TABLES:
            for column in table.primary_key:
                if column.autoincrement is True:
                    last = f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column.name}'), max({column.name}))"
                    self._target.execute(text(f"{last} FROM {table.name} HAVING max({column.name}) IS NOT NULL"))

    def _copy(self, table: Table) -> None:
        total = self._count(self._source, table)
        with self._target.begin():
            begun = self._count(self._target, table) > 0
        for _, part in self._parts(table, total):
            with self._target.begin():
                if begun and self._same(table, part):
                    continue
                if begun:
                    self._target.execute(delete(table).where(_among(table, part)))
                self._target.execute(insert(table), [dict(row._mapping) for row in part])

    def _parts(self, table: Table, total: int) -> Iterator[tuple[int, Sequence[Row[Any]]]]:
        """The source's rows, with the number of those before. Tells how far it is."""
        rows = 0
        self._tell(Progress(table.name, rows, total))
        query = select(table).where(*self._shared(table)).order_by(*table.primary_key)
        for part in self._source.execute(query, execution_options={"stream_results": True}).partitions(PART):
            yield rows, part
            rows += len(part)
            self._tell(Progress(table.name, rows, total))

    def _same(self, table: Table, part: Sequence[Row[Any]]) -> bool:
        """Whether the target has exactly these rows under their keys."""
        found = self._target.execute(select(table).where(_among(table, part)))
        return {tuple(row) for row in found} == {tuple(row) for row in part}

    def _count(self, connection: Connection, table: Table) -> int:
        return int(connection.execute(select(func.count()).select_from(table).where(*self._shared(table))).scalar_one())

    def _shared(self, table: Table) -> list[ColumnElement[bool]]:
        return [meta.c.key.not_in(self._own)] if table is meta else []


def _among(table: Table, rows: Sequence[Row[Any]]) -> ColumnElement[bool]:
    """The condition of rows with the keys of those."""
    key = list(table.primary_key)
    if len(key) == 1:
        return key[0].in_([row._mapping[key[0]] for row in rows])
    return tuple_(*key).in_([tuple(row._mapping[column] for column in key) for row in rows])
