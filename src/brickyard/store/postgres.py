"""Connections to PostgreSQL that never wait for long, whatever has become of the other side.

A machine that vanished is noticed by TCP. One whose PostgreSQL hangs is not: its kernel goes on to acknowledge what is sent, and
timers in the server itself (`statement_timeout`) do not run. So every wait for an answer has an end of its own.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url

T = TypeVar("T")

ANSWER_S = 10.0  # a statement or a commit that has no answer by then: the connection is closed, and counts as lost
CONNECT_S = 5
_PATIENCE: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer takes too long."""

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        """As psycopg's own, which is behind everything that a connection waits for."""
        return super().wait(self._bounded(gen), *arguments, **options)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The same steps; psycopg sends nothing (0) ten times a second while there is nothing to read or to write."""
        until = time.monotonic() + ANSWER_S
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > until:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"PostgreSQL has not answered for {ANSWER_S:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def driver_url(url: str) -> URL:
    """A database URL with the driver that we use."""
    parsed = make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername in ("postgres", "postgresql") else parsed


def connect(url: str) -> BoundedConnection:
    """A connection of psycopg's own, with autocommit. Raises psycopg.OperationalError."""
    plain = driver_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return BoundedConnection.connect(plain, autocommit=True, **_PATIENCE)


def engine(url: str, *, bounded: bool = True, connect: dict[str, Any] | None = None, **options: Any) -> Engine:
    """An engine whose connections are bounded, except for what may take long (migrations)."""
    made = create_engine(driver_url(url), connect_args={**_PATIENCE, **(connect or {})}, **options)
    if bounded:

        @event.listens_for(made, "do_connect")
        def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
            return BoundedConnection.connect(*arguments, **parameters)

    return made
