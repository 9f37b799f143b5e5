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
_HOST_BYTES = 22  # leaves room for a process number of seven digits: PostgreSQL truncates names to 63 bytes
_MARK = os.urandom(4).hex()  # tells this process from one with the same number in another container
_PATIENCE: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class _Wait:
    """One wait for an answer. `fd`: its connection's socket; `until_s`: time.monotonic()."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.until_s = time.monotonic() + ANSWER_S
        self.ended = False  # it took too long


class _Waits:
    """The waits under way, and a thread that ends those that take too long.

    The thread shuts down the connection's socket, which the waiting thread notices at once. (Checking the clock in the wait
    itself would keep psycopg from waiting in C, which costs a quarter of a statement's time.)
    """

    def __init__(self) -> None:
        self._under_way: set[_Wait] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, fd: int) -> _Wait:
        """A wait on that socket begins."""
        wait = _Wait(fd)
        with self._lock:
            self._under_way.add(wait)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="postgres-waits", daemon=True)
                self._thread.start()
        return wait

    def end(self, wait: _Wait) -> None:
        """The wait is over. Its socket may be closed, and its number used again, only after that."""
        with self._lock:
            self._under_way.discard(wait)

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with self._lock:  # no wait ends meanwhile, so no descriptor here can have been reused
                now = time.monotonic()
                for wait in self._under_way:
                    if now > wait.until_s and not wait.ended:
                        wait.ended = True
                        _shut_down(wait.fd)


_waits = _Waits()


def _shut_down(fd: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as there:
        there.shutdown(socket.SHUT_RDWR)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer takes too long."""

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        """Like psycopg's own, which is behind every wait of a connection."""
        wait = _waits.begin(self.pgconn.socket)
        try:
            return super().wait(gen, *arguments, **options)
        except psycopg.OperationalError as error:
            _waits.end(wait)
            if not wait.ended:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"PostgreSQL has not answered for {ANSWER_S:g} s") from error
        finally:
            _waits.end(wait)


def session_name() -> str:
    """The name of all connections of this process, by which another server ends them when this one hangs."""
    host = socket.gethostname().encode("ascii", "replace").decode()[:_HOST_BYTES]
    return f"brickyard process {os.getpid()} on {host} ({_MARK})"


def driver_url(url: str) -> URL:
    """A database URL with the driver that we use."""
    parsed = make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername in ("postgres", "postgresql") else parsed


def connect(url: str) -> BoundedConnection:
    """A psycopg connection with autocommit. Raises psycopg.OperationalError."""
    plain = driver_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return BoundedConnection.connect(plain, autocommit=True, application_name=session_name(), **_PATIENCE)


def engine(url: str, *, bounded: bool = True, connect: dict[str, Any] | None = None, **options: Any) -> Engine:
    """An engine whose connections are bounded, unless `bounded` is false for work that may take long (migrations). A connection
    that was idle for a while is tested before use."""
    arguments = {**_PATIENCE, "application_name": session_name(), **(connect or {})}
    made = create_engine(driver_url(url), connect_args=arguments, **options)
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
