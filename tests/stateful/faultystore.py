"""A SQLite database that fails when it is told to: before a statement, or after it took effect, the commit included."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

_KINDS = {
    "busy": (sqlite3.SQLITE_BUSY, "database is locked"),
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "broken": (sqlite3.SQLITE_IOERR, "disk I/O error"),
}
KINDS = tuple(_KINDS)
_NEVER = ("PRAGMA", "ROLLBACK")  # no unit of work has these


class Faults:
    """Fails one statement of those to come, and no other."""

    def __init__(self) -> None:
        self._left = 0
        self._after = False
        self._kind = KINDS[0]
        self.raised = 0

    def arm(self, number: int, *, after: bool, kind: str) -> None:
        """The `number`-th statement from now on fails."""
        self._left, self._after, self._kind = number, after, kind

    def disarm(self) -> None:
        self._left = 0

    @contextlib.contextmanager
    def around(self, sql: str) -> Iterator[None]:
        """Around the execution of a statement."""
        fails = False
        if self._left and not sql.startswith(_NEVER):
            self._left -= 1
            fails = not self._left
        if fails and not self._after:
            raise self._error()
        yield
        if fails:
            raise self._error()

    def _error(self) -> sqlite3.OperationalError:
        self.raised += 1
        code, text = _KINDS[self._kind]
        error = sqlite3.OperationalError(text)
        error.sqlite_errorcode = code
        return error

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Connections that are opened inside are of this kind."""
        faults, connect = self, sqlite3.dbapi2.connect

        class Cursor(sqlite3.Cursor):
            def execute(self, sql: str, *given: Any) -> Any:
                if sql == "PRAGMA synchronous=FULL":
                    sql = "PRAGMA synchronous=OFF"  # no power is cut here, and a disk that others use too is slow
                with faults.around(sql):
                    return super().execute(sql, *given)

            def executemany(self, sql: str, *given: Any) -> Any:
                with faults.around(sql):
                    return super().executemany(sql, *given)

        class Connection(sqlite3.Connection):
            def cursor(self, factory: Any = None) -> Any:
                return super().cursor(factory or Cursor)  # `execute` of a connection makes one too

            def commit(self) -> None:
                with faults.around("COMMIT"):
                    super().commit()

        def connected(*args: Any, **options: Any) -> Any:
            return connect(*args, **{**options, "factory": Connection})

        sqlite3.dbapi2.connect = connected
        try:
            yield
        finally:
            sqlite3.dbapi2.connect = connect
