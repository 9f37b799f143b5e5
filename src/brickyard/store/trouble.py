"""Classifies database errors: unavailable, full, or a bug of ours."""

from __future__ import annotations

import sqlite3
import threading
import time

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from brickyard.domain.errors import DatabaseAway, DatabaseFull, DatabaseTrouble, DatabaseUnsure

log = structlog.get_logger(__name__)

SPOKEN_S = 60.0  # trouble that returns within this time is the same episode and is not logged again
_SQLITE_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
_SQLITE_AWAY = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_NOMEM,
)
_DISK_FULL = "53100"
# Classes and codes of PostgreSQL after which the same statement may succeed later, or once an operator has mended what is wrong.
# Every other code is a bug of ours, or the unit's own error (23: a constraint).
_AWAY = (
    "08",  # the connection
    "25006",  # a standby, which only reads
    "25P03", "25P04",  # it took too long in a transaction
    "28",  # our role is refused: its password is being changed, say
    "3D000",  # no such database: it is being restored
    "40",  # serialization failures, deadlocks
    "42501",  # a right was taken away
    "53",  # out of memory, connections, ...
    "55006", "55P03",  # what it needs is in use, or locked for too long (lock_timeout)
    "57",  # stopping, starting, cancelled (statement_timeout)
    "58", "XX",  # its machine; a damaged database
)  # fmt: skip


def trouble_of(error: BaseException) -> DatabaseTrouble | None:
    """The error as trouble with the database, or None for any other error, which is a bug or the unit's own."""
    if isinstance(error, DatabaseTrouble):
        return error
    if isinstance(error, NoConnection):
        return DatabaseAway("every connection to it is in use")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0)
        full, away = code in _SQLITE_FULL, code & 0xFF in _SQLITE_AWAY
    else:
        state = getattr(cause, "sqlstate", None)
        never_answered = state is None and isinstance(error, OperationalError | InterfaceError)
        full, away = state == _DISK_FULL, never_answered or (state or "").startswith(_AWAY)
    reason = str(cause).strip().partition("\n")[0]
    if full:
        return DatabaseFull(reason)
    return DatabaseAway(reason) if away else None


def may_have_committed(error: BaseException) -> bool:
    """Whether a commit that raised this may have been done. It was not if PostgreSQL itself gave a reason, or if SQLite gave
    another one than a disk that failed: what is written by then may be found there later."""
    trouble = trouble_of(error)
    if not isinstance(trouble, DatabaseAway):
        return False
    cause = getattr(error, "orig", error)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR
    state = getattr(cause, "sqlstate", None)
    return state is None or state.startswith("08")


class Health:
    """Whether the database can be used. For any thread. Logs one line when an episode begins and one when it ends."""

    def __init__(self) -> None:
        self.trouble: DatabaseTrouble | None = None
        self._lock = threading.Lock()
        self._spoke_s = float("-inf")
        self._told = False

    def translated(self, error: BaseException, *, unsure: bool = False) -> BaseException:
        """Records the error, and returns the one for the caller. `unsure`: it was raised by a commit that may have been done."""
        trouble = trouble_of(error)
        if trouble is None or trouble is error:
            return error
        if unsure:
            trouble = DatabaseUnsure(trouble.reason)
        trouble.__cause__ = error
        with self._lock:
            began, self.trouble = self.trouble is None, trouble
            tell = began and time.monotonic() - self._spoke_s > SPOKEN_S
            if tell:
                self._told, self._spoke_s = True, time.monotonic()
        if tell:
            log.error("database_unavailable", reason=trouble.reason, kind=type(trouble).__name__)
        return trouble

    def recovered(self) -> None:
        """Records that the database has just accepted a write."""
        with self._lock:
            self.trouble = None
            tell, self._told = self._told, False
        if tell:
            log.info("database_available")
