"""The threads that write: units of work in two queues, several of them committed at once where the database has one writer.

Units that people wait for go first. The background's (reports of nodes, passes of the loops) wait for a quiet moment. Where there
is none they get a small share, and half of the time once they have waited for long: what requests have asked for must also be
done, and each of them makes several units of the background's. `lag_s` tells when even that is not enough.

Where there is one writer (SQLite), units that wait together share one transaction, each in a savepoint of its own: one commit,
one write to the disk, and a unit that raises takes nothing with it but itself. Elsewhere (PostgreSQL) a unit is a transaction,
and units run side by side.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from brickyard.store.trouble import trouble_of
from brickyard.store.tx import Tx

Work = Callable[[Tx], Any]

_TOGETHER = 32  # units of one transaction: bounds how long the first of them waits for the last
_BACKGROUND_TOGETHER = 8  # fewer: somebody's request may arrive while they run
_QUIET_S = 0.010  # no request for so long: a quiet moment
_SHARE_S = 0.025  # in a storm of requests the background gets at most one turn in this time,
_PAUSE = 9  # and waits for so many times as long as its last turn took: a tenth of the time is its
_LATE_S = 0.5  # what has waited for so long is late: then turns are as long as those of requests, and half of the time is its
_RETRIED_SQLSTATES = ("40001", "40P01")  # serialization failure, deadlock: the work is safe to do again
_ATTEMPTS = 5


class Unit(msgspec.Struct, frozen=True):
    """A unit of work, whom to hand its outcome, and the event loop to do that on (None: the writer's own thread)."""

    work: Work
    done: Callable[[Outcome], None]
    loop: asyncio.AbstractEventLoop | None


class Outcome(msgspec.Struct, frozen=True):
    """What came of a unit: its result or its exception, and the clusters that its commit changed."""

    unit: Unit
    result: Any = None
    error: BaseException | None = None
    changed: frozenset[str] = frozenset()


class Writer:
    """`deliver` is called on a writer's thread with the outcomes of one transaction, after its commit, in their order."""

    def __init__(self, *, engine: Engine, threads: int, deliver: Callable[[list[Outcome]], None]) -> None:
        self._engine = engine
        self._deliver = deliver
        self._together = threads == 1
        self._people: deque[tuple[float, Unit]] = deque()  # with time.monotonic() of its coming
        self._background: deque[tuple[float, Unit]] = deque()
        self._asked_s = 0.0  # when a request was last put in, monotonic
        self._next_share_s = 0.0  # when the background has a turn again, whatever is asked
        self._closed = False
        self._ready = threading.Condition()
        self._threads = [threading.Thread(target=self._run, name=f"store-write-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def put(self, unit: Unit, *, background: bool) -> None:
        """Queue a unit. Raises RuntimeError after `close`."""
        with self._ready:
            if self._closed:
                raise RuntimeError("the store is closed")
            now = time.monotonic()
            if background:
                if not self._background:
                    self._next_share_s = max(self._next_share_s, now + _SHARE_S)
                self._background.append((now, unit))
            else:
                self._people.append((now, unit))
                self._asked_s = now
            self._ready.notify()

    @property
    def lag_s(self) -> float:
        """For how long the unit has waited that has waited longest."""
        with self._ready:
            heads = [queue[0][0] for queue in (self._people, self._background) if queue]
        return time.monotonic() - min(heads) if heads else 0.0

    def close(self) -> None:
        """Finish what is queued, and end the threads."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (taken := self._take())[0]:
            units, background = taken
            started = time.monotonic()
            self._deliver(self._several(units) if len(units) > 1 else [self._one(units[0])])
            if background:
                ended = time.monotonic()
                took = ended - started
                with self._ready:
                    late = self._late(ended)
                self._next_share_s = ended + took if late else max(started + _SHARE_S, ended + _PAUSE * took)

    def _take(self) -> tuple[list[Unit], bool]:
        """The units of the next transaction, and whether they are the background's; none when closed."""
        with self._ready:
            while True:
                now = time.monotonic()
                if self._background and now >= self._next_share_s:
                    return self._pop(self._background, _TOGETHER if self._late(now) else _BACKGROUND_TOGETHER), True
                if self._people:
                    return self._pop(self._people, _TOGETHER), False
                pause = self._pause(now)
                if self._background and (pause <= 0 or self._closed):
                    return self._pop(self._background, _BACKGROUND_TOGETHER), True
                if self._closed:
                    return [], False
                self._ready.wait(pause if self._background else None)

    def _pause(self, now: float) -> float:
        """Seconds until it is the background's turn."""
        return min(self._asked_s + _QUIET_S, self._next_share_s) - now

    def _late(self, now: float) -> bool:
        """Whether the background has waited for too long. The condition is held."""
        return bool(self._background) and now - self._background[0][0] > _LATE_S

    def _pop(self, queue: deque[tuple[float, Unit]], limit: int) -> list[Unit]:
        count = min(len(queue), limit) if self._together else 1
        return [queue.popleft()[1] for _ in range(count)]

    def _one(self, unit: Unit) -> Outcome:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._engine.connect() as connection, connection.begin():
                    tx = Tx(connection, locking=not self._together)
                    result = unit.work(tx)
                    changed = tx.finish()
                return Outcome(unit, result=result, changed=changed)
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) not in _RETRIED_SQLSTATES or attempt == _ATTEMPTS:
                    return Outcome(unit, error=error)
            except BaseException as error:
                return Outcome(unit, error=error)
        raise AssertionError("the last attempt returns")

    def _several(self, units: Iterable[Unit]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        units = list(units)
        try:
            with self._engine.connect() as connection, connection.begin():
                outcomes.extend(_in_savepoint(connection, unit) for unit in units)
        except BaseException as error:
            return [Outcome(unit, error=error) for unit in units]
        return outcomes


def _in_savepoint(connection: Connection, unit: Unit) -> Outcome:
    # Past SQLAlchemy, whose nested transactions cost as much as the unit itself.
    raw: Any = connection.connection.driver_connection
    raw.execute("SAVEPOINT unit")
    tx = Tx(connection, locking=False)
    try:
        result = unit.work(tx)
    except BaseException as error:
        if trouble_of(error) is not None:
            raise  # the database may have rolled back the whole transaction by itself, savepoints and all
        raw.execute("ROLLBACK TO unit")
        raw.execute("RELEASE unit")
        return Outcome(unit, error=error)
    raw.execute("RELEASE unit")
    return Outcome(unit, result=result, changed=tx.finish())
