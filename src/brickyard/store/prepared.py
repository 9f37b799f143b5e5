"""Statements that every call and every pass executes, compiled once for each database.

SQLAlchemy takes several times as long to execute a statement as SQLite itself, and SQLite has one writer, for which everybody
waits. A prepared statement goes to the driver directly; errors are the same as SQLAlchemy's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.sql.compiler import SQLCompiler


class Direct:
    """A connection that has its driver's at hand: finding that takes as long as executing a statement. For one transaction."""

    __slots__ = ("_connection", "dialect", "raw")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect
        self.raw: Any = connection.connection.driver_connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def direct(connection: Connection) -> Connection:
    """The same connection, for units of work."""
    return cast(Connection, Direct(connection))


_MOST_ROWS = 16  # of one statement


def raw_of(connection: Connection) -> Any:
    """The driver's connection."""
    return connection.raw if isinstance(connection, Direct) else connection.connection.driver_connection


def driver_execute(connection: Connection, sql: str, *arguments: Any, **options: Any) -> Any:
    """Executes it with the driver. Returns the driver's cursor; raises SQLAlchemy's errors."""
    raw = raw_of(connection)
    try:
        return raw.execute(sql, *arguments, **options)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _translated(connection, sql, error) from error


def _translated(connection: Connection, sql: str, error: Exception) -> StatementError:
    """SQLAlchemy's error for the driver's."""
    dialect, raw = connection.dialect, raw_of(connection)
    lost = dialect.is_disconnect(cast(Any, error), raw, None)
    if lost:
        connection.invalidate(error)
    return DBAPIError.instance(sql, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect)


def _rows_at_once(rows: int) -> int:
    """How many of them one statement inserts: a power of two, so that there are few statements."""
    return min(1 << (rows.bit_length() - 1), _MOST_ROWS) if rows else 0


@functools.cache
def _for_rows(sql: str, rows: int) -> str:
    """An INSERT of one row as one of several. It returns nothing: SQLite knows RETURNING only since 3.35."""
    plain = sql.partition(" RETURNING ")[0]
    head, values, row = plain.partition(" VALUES ")
    return head + values + ", ".join([row] * rows)


class Kept:
    """A row that is to be inserted. `id` is what the statement returns, once it has been executed."""

    __slots__ = ("id", "statement", "values")

    def __init__(self, statement: Prepared, values: dict[str, Any]) -> None:
        self.statement = statement
        self.values = values
        self.id = 0


class Keeper:
    """A connection that inserts rows later, together with others (`store.batch`)."""

    def keep(self, row: Kept) -> None:
        raise NotImplementedError


class _Compiled(NamedTuple):
    """A statement as its driver takes it. `order`: the names of the parameters, if they have no names there. `fixed`: those that
    are part of the statement."""

    sql: str
    order: list[str] | None
    fixed: dict[str, Any]


class Prepared:
    """A statement whose parameters are all named, of types that the drivers take as they are, and whose lists have one length.
    `columns`: those that an INSERT or UPDATE sets to the parameters of their names. `returns_id`: it returns a number.
    Execute it in a transaction."""

    def __init__(self, statement: Executable, columns: Iterable[str] = (), *, returns_id: bool = False) -> None:
        self._statement: Any = statement
        self._columns = list(columns) or None
        self._returns_id = returns_id
        self._compiled: dict[str, _Compiled] = {}  # by the dialect's name

    def run(self, connection: Connection, **values: Any) -> None:
        """Executes it for its effect."""
        self._execute(connection, values).close()

    def insert(self, connection: Connection, **values: Any) -> Kept:
        """Inserts a row: now, or with others before the commit."""
        row = Kept(self, values)
        if isinstance(connection, Keeper):
            connection.keep(row)
        elif self._returns_id:
            row.id = int(self.scalar(connection, **values))
        else:
            self.run(connection, **values)
        return row

    def insert_many(self, connection: Connection, rows: Sequence[Kept]) -> None:
        """Inserts rows of this statement: on PostgreSQL in one exchange, on SQLite by as few statements as there can be."""
        sql, order, fixed = self._compiled.get(connection.dialect.name) or self._compile(connection.dialect)
        if order is not None:
            self._insert_many_by_place(connection, rows, sql, order, fixed)
            return
        raw = raw_of(connection)
        try:
            with raw.cursor() as cursor:
                cursor.executemany(sql, [{**row.values, **fixed} for row in rows], returning=self._returns_id)
                for row in rows if self._returns_id else ():
                    row.id = int(cursor.fetchone()[0])
                    cursor.nextset()
        except connection.dialect.loaded_dbapi.Error as error:
            raise _translated(connection, sql, error) from error

    def _insert_many_by_place(
        self, connection: Connection, rows: Sequence[Kept], sql: str, order: list[str], fixed: dict[str, Any]
    ) -> None:
        begin = 0
        while some := rows[begin : begin + _rows_at_once(len(rows) - begin)]:
            values = [row.values[name] if name in row.values else fixed[name] for row in some for name in order]
            cursor = driver_execute(connection, _for_rows(sql, len(some)), values)
            if self._returns_id:  # SQLite's only writer numbers rows one after the other
                for row, number in zip(reversed(some), range(cursor.lastrowid, 0, -1), strict=False):
                    row.id = number
            cursor.close()
            begin += len(some)

    def all(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        """Its rows."""
        found: list[tuple[Any, ...]] = self._execute(connection, values).fetchall()
        return found

    def first(self, connection: Connection, **values: Any) -> tuple[Any, ...] | None:
        """Its first row, if there is one."""
        cursor = self._execute(connection, values)
        found: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()  # an open cursor of SQLite is in the way of a rollback
        return found

    def scalar(self, connection: Connection, **values: Any) -> Any:
        """The first column of its first row; None if there is none."""
        row = self.first(connection, **values)
        return None if row is None else row[0]

    def _execute(self, connection: Connection, values: dict[str, Any]) -> Any:
        dialect = connection.dialect
        sql, order, fixed = self._compiled.get(dialect.name) or self._compile(dialect)
        if fixed:
            values.update(fixed)
        return driver_execute(connection, sql, values if order is None else [values[name] for name in order])

    def _compile(self, dialect: Dialect) -> _Compiled:
        found: SQLCompiler = self._statement.compile(dialect=dialect, column_keys=self._columns)
        fixed = {name: bind.value for name, bind in found.binds.items() if not bind.required}
        compiled = self._compiled[dialect.name] = _Compiled(found.string, found.positiontup, fixed)
        return compiled
