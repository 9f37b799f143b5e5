"""The threads that write: units of work in two queues, several committed at once if the database has one writer.

Units that people wait for go first. Background units (reports of nodes, passes of the loops) wait for a quiet moment. If there is
none they get a small share of the time, and half of it once they have waited for long: the work behind requests must also be
done, and each request causes several background units. `lag_s` tells when even that is not enough.

With one writer (SQLite), units that wait together share one transaction: one commit and one write to disk. A unit that raises
undoes only itself: most have written nothing by then, and otherwise all of them are done again, each in its own savepoint. A turn
is limited in time, so that nobody waits for long, however slow the machine is.

With several writers (PostgreSQL) units run side by side, and each is a transaction: it holds locks until its commit, which others
may wait for. Only those that insert new rows, and lock no others, share transactions (`store.batch`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Protocol, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from brickyard.domain.errors import DatabaseAway
from brickyard.store.batch import Batch, insert_together
from brickyard.store.changeset import Changes
from brickyard.store.prepared import direct, raw_of
from brickyard.store.servers import Excluded
from brickyard.store.trouble import may_have_committed, trouble_of
from brickyard.store.tx import ChangedHands, Tx
from brickyard.store.units import Outcome, Ticket, Unit

_TOGETHER = 64  # most units per transaction,
_TURN_S = 0.1  # and its time limit: the first unit waits for the last
_BACKGROUND_TURN_S = 0.01  # shorter: a request may arrive while it runs
_QUIET_S = 0.010  # a quiet moment: no request for this long
_SHARE_S = 0.025  # while requests pour in, the background gets at most one turn in this time,
_PAUSE = 9  # and then waits this many times as long as its last turn took: it gets a tenth of the time
_LATE_S = 0.5  # a unit that has waited for this long is late: turns become as long as those of requests, and take half the time
_RESERVED = 2  # threads reserved for requests, if there are several
_RETRIED_SQLSTATES = ("40001", "40P01")  # serialization failure, deadlock: the work can safely be repeated
_ATTEMPTS = 5
_MEMBER_S = 1.0  # how long a commit waits while another server is alone


class Committer(Protocol):
    """The store, as its writer's threads see it."""

    def commit(self, connection: Connection, changed: Changes) -> None:
        """May commit a transaction that has changed something, if writers run side by side; otherwise the writer does. Raises
        Excluded if it must not be committed now: the unit is repeated for a moment. After any other error, nothing is."""
        ...

    def deliver(self, outcomes: list[Outcome]) -> None:
        """Passes on the outcomes of one transaction, after its commit and in order."""
        ...


class Writer:
    """Starts with its threads."""

    def __init__(self, *, engine: Engine, threads: int, committer: Committer) -> None:
        self._engine = engine
        self._committer = committer
        self._together = threads == 1
        self._people: deque[Ticket] = deque()
        self._background: deque[Ticket] = deque()
        self._under_way: dict[int, tuple[float, bool]] = {}  # thread -> when its turn began, and whether it is the background's
        self._asked_s = 0.0  # when a request was last queued or answered, monotonic: clients ask again once they have the answer
        self._next_share_s = 0.0  # when the background gets its next turn, regardless of requests
        self._closed = False
        self._watched = False  # whether a thread waits for the background's next turn: one is enough
        self._ready = threading.Condition()
        self._threads = [threading.Thread(target=self._run, name=f"store-write-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def put(self, unit: Unit, *, background: bool) -> Ticket:
        """Queues a unit. Raises RuntimeError after `close`."""
        with self._ready:
            if self._closed:
                raise RuntimeError("the store is closed")
            ticket = Ticket(unit, time.monotonic())
            if background:
                if not self._background:
                    self._next_share_s = max(self._next_share_s, ticket.since_s + _SHARE_S)
                self._background.append(ticket)
            else:
                self._people.append(ticket)
                self._asked_s = ticket.since_s
            self._ready.notify()
        return ticket

    def withdraw(self, ticket: Ticket) -> bool:
        """Takes back a request's unit if it has not begun; returns whether it was taken back."""
        with self._ready:
            try:
                self._people.remove(ticket)
            except ValueError:
                return False
            return True

    @property
    def lag_s(self) -> float:
        """How long the longest-waiting unit has waited."""
        heads = [ticket.since_s for queue in (self._people, self._background) if (ticket := _head(queue)) is not None]
        return time.monotonic() - min(heads) if heads else 0.0

    @property
    def busy_s(self) -> float:
        """How long the longest-running turn has been going on."""
        with self._ready:
            began = [since_s for since_s, _ in self._under_way.values()]
        return time.monotonic() - min(began) if began else 0.0

    def close(self, *, limit_s: float) -> None:
        """Finishes what is queued, if the database accepts it, and ends the threads. Abandons what hangs after `limit_s`."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._drop()

    def _run(self) -> None:
        me = threading.get_ident()
        while (background := self._wait(me)) is not None:
            started = time.monotonic()
            with self._ready:
                late = self._late(started)
            outcomes = self._turn(background, late=late)
            if outcomes:
                self._committer.deliver(outcomes)
            ended = time.monotonic()
            with self._ready:
                del self._under_way[me]
                if background:
                    took = ended - started
                    late = late or self._late(ended)
                    self._next_share_s = ended + took if late else max(started + _SHARE_S, ended + _PAUSE * took)
                else:
                    self._asked_s = ended
            if self._closed and any(each.error is not None and trouble_of(each.error) is not None for each in outcomes):
                self._drop()

    def _wait(self, me: int) -> bool | None:
        """Waits for a turn: returns True for the background's, False for a request's, None when closed."""
        with self._ready:
            while True:
                now = time.monotonic()
                chosen = self._shared(now) if self._together else self._side_by_side(now)
                if chosen is not None:
                    self._under_way[me] = (now, chosen)
                    if self._background and not self._watched and not self._together:
                        self._ready.notify()  # another thread watches, and takes what can be done beside this turn
                    return chosen
                if self._closed and not self._people and not self._background:
                    return None
                self._sleep(now)

    def _sleep(self, now: float) -> None:
        """Waits until something has changed, or until the background's next turn. Call with the condition held."""
        if not self._background or self._watched:
            self._ready.wait()
            return
        self._watched = True
        try:
            self._ready.wait(max(0.0, self._pause(now)) or _QUIET_S)
        finally:
            self._watched = False

    def _shared(self, now: float) -> bool | None:
        """Whose turn it is with one writer; None: nobody's yet. Call with the condition held."""
        if self._background and now >= self._next_share_s:
            return True
        if self._people:
            return False
        return True if self._background and (self._pause(now) <= 0 or self._closed) else None

    def _side_by_side(self, now: float) -> bool | None:
        """The same with several writers. The background leaves some to requests, and gets half of them when it is late. While
        requests pour in, it has one at a time, for its share of the time: all of them share this process's processor."""
        if self._closed:
            return False if self._people else True if self._background else None
        busy, late = sum(background for _, background in self._under_way.values()), self._late(now)
        if self._people and not (late and busy < len(self._threads) // 2):
            return False
        if not late and now < self._asked_s + _QUIET_S:
            return True if self._background and not busy and now >= self._next_share_s else None
        return True if self._background and busy < len(self._threads) - _RESERVED else None

    def _pause(self, now: float) -> float:
        """Seconds until the background's next turn."""
        return min(self._asked_s + _QUIET_S, self._next_share_s) - now

    def _late(self, now: float) -> bool:
        """Whether the background has waited for too long. Call with the condition held."""
        return bool(self._background) and now - self._background[0].since_s > _LATE_S

    def _turn(self, background: bool, *, late: bool) -> list[Outcome]:
        queue = self._background if background else self._people
        short, quiet = background and not late, time.monotonic() >= self._asked_s + _QUIET_S
        if self._together:
            return self._several(queue, _BACKGROUND_TURN_S if short else _TURN_S)
        if short and not quiet:
            return self._share(queue)
        units = self._next_inserts(queue)
        if len(units) > 1:
            return insert_together(self._engine, units, self._committer.commit) or [self._one(unit) for unit in units]
        return [self._one(unit) for unit in units]

    def _share(self, queue: deque[Ticket]) -> list[Outcome]:
        """A turn of the background's while requests pour in, where each unit is a transaction."""
        outcomes: list[Outcome] = []
        until = time.monotonic() + _BACKGROUND_TURN_S
        while time.monotonic() < until and (unit := self._next(queue)) is not None:
            outcomes.append(self._one(unit))
        return outcomes

    def _next(self, queue: deque[Ticket]) -> Unit | None:
        with self._ready:
            return queue.popleft().unit if queue else None

    def _all(self, queue: deque[Ticket]) -> list[Unit]:
        with self._ready:
            units = [ticket.unit for ticket in queue]
            queue.clear()
            return units

    def _next_inserts(self, queue: deque[Ticket]) -> list[Unit]:
        """The next unit, and those behind it that can share its transaction."""
        units: list[Unit] = []
        with self._ready:
            while queue and len(units) < _TOGETHER and (not units or (units[-1].inserts and queue[0].unit.inserts)):
                units.append(queue.popleft().unit)
        return units

    def _drop(self) -> None:
        """Tells all waiting callers that the database accepts nothing more."""
        with self._ready:
            left = [*self._people, *self._background]
            self._people.clear()
            self._background.clear()
            self._ready.notify_all()
        if left:
            self._committer.deliver([Outcome(each.unit, error=DatabaseAway("the server is stopping")) for each in left])

    def _one(self, unit: Unit) -> Outcome:
        attempt, excluded_s = 1, math.inf
        while True:
            committing = False
            try:
                with self._engine.connect() as connection, connection.begin():
                    tx = Tx(direct(connection), locking=True)
                    result = unit.work(tx)
                    changed = tx.finish()
                    committing = True
                    if changed:
                        self._committer.commit(connection, changed)
                return Outcome(unit, result=result, changed=changed)
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) not in _RETRIED_SQLSTATES or attempt == _ATTEMPTS:
                    return Outcome(unit, error=error, unsure=committing and may_have_committed(error))
                attempt += 1
            except ChangedHands:  # retried without limit: each time somebody else made progress
                continue
            except Excluded:  # while a server comes or goes, that is over in a moment
                excluded_s = min(excluded_s, time.monotonic())
                if time.monotonic() > excluded_s + _MEMBER_S:
                    return Outcome(unit, error=DatabaseAway("another server has it for itself while this one joins again"))
                time.sleep(0.01)
            except BaseException as error:
                return Outcome(unit, error=error, unsure=committing and may_have_committed(error))

    def _several(self, queue: deque[Ticket], turn_s: float) -> list[Outcome]:
        outcomes: list[Outcome] = []
        units: list[Unit] = []
        committing = False
        until = time.monotonic() + turn_s
        try:
            with self._engine.connect() as plain, plain.begin():
                connection = direct(plain)
                batch = Batch(connection)
                while len(units) < _TOGETHER and (not units or time.monotonic() < until):
                    if (unit := self._next(queue)) is None:
                        break
                    units.append(unit)
                    outcomes.append(_beside(connection, batch, unit))
                _send(batch)
                self._before_commit(plain)
                committing = True
        except _Spoilt:
            return self._apart(units)
        except BaseException as error:
            if not units:  # the transaction could not begin: whoever waits would only wait as long again, one after the other
                units = self._all(queue)
            unsure = committing and may_have_committed(error)
            return [Outcome(unit, error=error, unsure=unsure) for unit in units]
        return outcomes

    def _apart(self, units: list[Unit]) -> list[Outcome]:
        """The same for units one of which is to be undone."""
        committing = False
        try:
            with self._engine.connect() as plain, plain.begin():
                connection = direct(plain)
                outcomes = [_in_savepoint(connection, unit) for unit in units]
                self._before_commit(plain)
                committing = True
        except BaseException as error:
            unsure = committing and may_have_committed(error)
            return [Outcome(unit, error=error, unsure=unsure) for unit in units]
        return outcomes

    def _before_commit(self, connection: Connection) -> None:
        """One writer commits itself, also what has changed nothing."""
        self._committer.commit(connection, Changes())


class _Spoilt(Exception):
    """A unit has failed after it had written something: the transaction cannot be committed."""


def _head(queue: deque[Ticket]) -> Ticket | None:
    """The first one, without a lock: every read checks the lag."""
    try:
        return queue[0]
    except IndexError:
        return None


def _send(batch: Batch) -> None:
    """Inserts the rows that were kept back."""
    try:
        batch.send()
    except BaseException as error:
        if trouble_of(error) is not None:
            raise
        raise _Spoilt from error  # whoever has made the row that was refused: each finds out alone


def _beside(connection: Connection, batch: Batch, unit: Unit) -> Outcome:
    """Does a unit in a transaction with others. The rows of those that only insert are kept back, until another unit may read
    them."""
    if unit.inserts:
        batch.begin()
    else:
        _send(batch)
    raw = raw_of(connection)
    written = raw.total_changes
    tx = Tx(cast(Connection, batch) if unit.inserts else connection, locking=False)
    try:
        result = unit.work(tx)
    except BaseException as error:
        if trouble_of(error) is not None:
            raise
        if (unit.inserts and not batch.drop()) or raw.total_changes != written:
            raise _Spoilt from error
        return Outcome(unit, error=error)
    return Outcome(unit, result=result, changed=tx.finish())


def _in_savepoint(connection: Connection, unit: Unit) -> Outcome:
    # Bypasses SQLAlchemy, whose nested transactions cost as much as the unit itself.
    raw = raw_of(connection)
    raw.execute("SAVEPOINT unit")
    tx = Tx(connection, locking=False)
    try:
        result = unit.work(tx)
    except BaseException as error:
        if trouble_of(error) is not None:
            raise  # the database may have rolled back the whole transaction, including the savepoints
        raw.execute("ROLLBACK TO unit")
        raw.execute("RELEASE unit")
        return Outcome(unit, error=error)
    raw.execute("RELEASE unit")
    return Outcome(unit, result=result, changed=tx.finish())
