"""Connections to PostgreSQL that never wait for long, whatever happened to the other side.

TCP notices a machine that has vanished, but not a PostgreSQL that hangs: its kernel still acknowledges what is sent, and the
server's own timers (`statement_timeout`) do not run. So every wait for an answer has a time limit here.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DisconnectionError

T = TypeVar("T")

ANSWER_S = 10.0  # without an answer to a statement or commit by then, the connection is closed and counts as lost
LOOK_S = 0.5  # the most by which that may be late
CONNECT_S = 5
RESTED_S = 1.0
_PATIENCE: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class _Waits:
    """The waits under way, and a thread that ends those that take too long.

    The thread shuts down the connection's socket, which the waiting thread notices at once. (Checking the clock in the wait
    itself would keep psycopg from waiting in C, which costs a quarter of a statement's time.)
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}  # socket -> when its wait ends, time.monotonic()
        self._ended: set[int] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, fd: int) -> None:
        """A wait on that socket begins."""
        with self._lock:
            self._until[fd] = time.monotonic() + ANSWER_S
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="postgres-waits", daemon=True)
                self._thread.start()

    def end(self, fd: int) -> bool:
        """The wait is over. Returns whether it took too long and was ended."""
        with self._lock:
            self._until.pop(fd, None)
            if fd not in self._ended:
                return False
            self._ended.discard(fd)
            return True

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with self._lock:  # no wait ends meanwhile, so no descriptor here can have been reused
                now = time.monotonic()
                for fd in [fd for fd, until in self._until.items() if now > until and fd not in self._ended]:
                    self._ended.add(fd)
                    _shut_down(fd)


_waits = _Waits()


def _shut_down(fd: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as there:
        there.shutdown(socket.SHUT_RDWR)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer takes too long."""

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        """Like psycopg's own, which is behind every wait of a connection."""
        fd = self.pgconn.socket
        _waits.begin(fd)
        ended = False
        try:
            return super().wait(gen, *arguments, **options)
        except psycopg.OperationalError as error:
            if ended := _waits.end(fd):
                self.pgconn.finish()
                raise psycopg.OperationalError(f"PostgreSQL has not answered for {ANSWER_S:g} s") from error
            raise
        finally:
            if not ended:
                _waits.end(fd)


def driver_url(url: str) -> URL:
    """A database URL with the driver that we use."""
    parsed = make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername in ("postgres", "postgresql") else parsed


def connect(url: str, *, application_name: str | None = None) -> BoundedConnection:
    """A psycopg connection with autocommit. Raises psycopg.OperationalError."""
    plain = driver_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return BoundedConnection.connect(plain, autocommit=True, application_name=application_name, **_PATIENCE)


def engine(url: str, *, bounded: bool = True, connect: dict[str, Any] | None = None, **options: Any) -> Engine:
    """An engine whose connections are bounded, unless `bounded` is false for work that may take long (migrations). A connection
    that was idle for a while is tested before use."""
    made = create_engine(driver_url(url), connect_args={**_PATIENCE, **(connect or {})}, **options)
    if bounded:

        @event.listens_for(made, "do_connect")
        def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
            return BoundedConnection.connect(*arguments, **parameters)

    @event.listens_for(made, "checkin")
    def _rest(_connection: Any, record: Any) -> None:
        record.info["since_s"] = time.monotonic()

    @event.listens_for(made, "checkout")
    def _try(connection: Any, record: Any, _proxy: Any) -> None:
        # Not each time, as `pool_pre_ping` does: that would add a statement to every short transaction. If the database has just
        # been restarted, one unit of work fails, and then the pool discards all older connections.
        if time.monotonic() - record.info.get("since_s", time.monotonic()) > RESTED_S and not _answers(made, connection):
            raise DisconnectionError

    return made


def _answers(engine: Engine, connection: Any) -> bool:
    try:
        return engine.dialect.do_ping(connection)
    except psycopg.Error:
        return False
