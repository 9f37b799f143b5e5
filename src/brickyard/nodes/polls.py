"""What agents are told in their long polls: kept until it may have changed, so that one that waits in vain costs next to nothing.

Agents that must be read for at the same time share one read: a pass changes the assignments of several nodes at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Protocol

import msgspec

from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import Assignment, AssignmentReply
from brickyard.store.store import Store
from brickyard.store.tx import Tx

LOOK_S, LOOK_UNTOLD_S = 10.0, 1.0  # between checks for other servers' changes: with and without a working change feed
STEP_S = 0.25  # between timers of those that wait
ANSWER_S = 600.0  # how long the answer "nothing has changed" may be repeated without a read


class Alarms:
    """Tells bells that their time is over, up to a quarter of a second late: thousands wait for nearly the same time, and share
    timers. A bell that has been taken down meanwhile is told too."""

    def __init__(self) -> None:
        self._due: dict[int, list[Bell]] = {}

    def set(self, bell: Bell, seconds: float, *, early_s: float = 0.0) -> None:
        """`early_s`: by how much its time may be shorter, so that what has begun in one moment, as after a server's start, does
        not end in one moment too."""
        loop = asyncio.get_running_loop()
        step = int((loop.time() + seconds) / STEP_S) + 1
        other = step - int(random.random() * early_s / STEP_S)  # noqa: S311 - spreads load, guards nothing
        if len(self._due.get(other, ())) < len(self._due.get(step, ())):
            step = other
        if (due := self._due.get(step)) is None:
            due = self._due[step] = []
            loop.call_at(step * STEP_S, self._over, step)
        due.append(bell)

    def _over(self, step: int) -> None:
        for bell in self._due.pop(step):
            bell.over()


class Bell:
    """Rings when a row may have changed. Hang it before a read: a change after that rings it, so none is missed."""

    __slots__ = ("_waiting", "next", "rung", "stale")

    def __init__(self) -> None:
        self.rung = False
        self.stale = False  # what was read since it was hung may be out of date
        self.next: Bell | None = None  # another one for the same row
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self.rung = self.stale = True
        self.over()

    async def wait(self, seconds: float, alarms: Alarms) -> bool:
        """Waits until it rings. Returns False if it has not after that time."""
        if not self.rung:
            self._waiting = asyncio.get_running_loop().create_future()
            alarms.set(self, seconds)
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self.rung

    def over(self) -> None:
        """It has rung, or its time is over."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Held(Bell):
    """A poll to which nothing can be said now. No task waits for it, nor a timer of its own: thousands are held, for as long as
    agents live. `rows` hears that it is over once, unless nobody waits any more."""

    __slots__ = ("answered", "have", "instance_id", "rows", "until")

    def __init__(self, instance_id: str, have: int, rows: Rows, *, until: float) -> None:
        super().__init__()
        self.instance_id, self.have, self.until = instance_id, have, until
        self.rows: Rows | None = rows
        self.answered: asyncio.Future[AssignmentReply] = asyncio.get_running_loop().create_future()

    def over(self) -> None:
        rows, self.rows = self.rows, None
        if rows is not None:
            rows.over(self)


class Found(msgspec.Struct, frozen=True, gc=False):
    """What an instance's row says: whether the instance is wanted, and the version of its assignment (0: none). `whole`: with the
    assignment itself; without it once the agent has it and need not be told again. `until`: when to read again, at the latest."""

    known: bool
    version: int = 0
    assignment: Assignment | None = None
    whole: bool = True
    until: float = 0.0


class Rows(Protocol):
    """What polls ask for: `AgentService`."""

    def found(self, tx: Tx, instance_id: str) -> Found:
        """Reads one instance's row. May run in a transaction that also writes."""
        ...

    def over(self, held: Held) -> None:
        """The time of a poll is over; or it has rung, and there may be something to say."""
        ...


class Polls:
    """For one event loop."""

    def __init__(self, *, store: Store, rows: Rows, monotonic: Monotonic) -> None:
        self._store = store
        self._table = rows
        self._monotonic = monotonic
        self._kept: dict[str, Found] = {}
        self._bells: dict[str, Bell] = {}  # the first of a row
        self.alarms = Alarms()
        self._wanted: dict[str, list[asyncio.Future[Found]]] = {}  # for the next read
        self._reader: asyncio.Task[None] | None = None

    # -- changes -----------------------------------------------------------------------------------------------------

    def hang(self, instance_id: str) -> Bell:
        """A bell for the instance's row. Take it down again."""
        bell = Bell()
        self.add(instance_id, bell)
        return bell

    def add(self, instance_id: str, bell: Bell) -> None:
        """Hangs this one. Take it down again."""
        bell.next, self._bells[instance_id] = self._bells.get(instance_id), bell

    def take_down(self, instance_id: str, bell: Bell) -> None:
        before, each = None, self._bells[instance_id]
        while each is not bell:
            assert each.next is not None  # noqa: S101 - every bell that hangs is there
            before, each = each, each.next
        if before is not None:
            before.next = bell.next
        elif bell.next is not None:
            self._bells[instance_id] = bell.next
        else:
            del self._bells[instance_id]
        bell.next = None

    def _hanging(self, instance_id: str) -> list[Bell]:
        found, each = list[Bell](), self._bells.get(instance_id)
        while each is not None:
            found.append(each)
            each = each.next
        return found

    def changed(self, instance_ids: Iterable[str]) -> None:
        """The assignments of these may have changed: nothing is repeated, and whoever waits looks."""
        for instance_id in instance_ids:
            self._kept.pop(instance_id, None)
            self.ring(instance_id)

    def ring(self, instance_id: str) -> None:
        """Whoever waits looks."""
        for bell in self._hanging(instance_id):
            bell.ring()

    def all_changed(self) -> None:
        """Anything may have changed."""
        self._kept.clear()
        for instance_id in list(self._bells):  # those that are answered are taken down
            self.ring(instance_id)

    def forget(self, instance_id: str) -> None:
        """The instance is no longer wanted, or gone: its agent hears so at its next call."""
        self._kept.pop(instance_id, None)
        for bell in self._hanging(instance_id):
            bell.stale = True

    # -- answers -----------------------------------------------------------------------------------------------------

    def kept(self, instance_id: str, *, has: int | None) -> Found | None:
        """The last answer, while nobody has reported a change. `has`: the version that the agent has and need not get again."""
        found = self._kept.get(instance_id)
        if found is None or self._monotonic() >= found.until or not self._store.told:
            return None
        if found.version == has:
            if found.whole:
                found = self._kept[instance_id] = Found(True, found.version, whole=False, until=found.until)
            return found
        return found if found.whole else None

    def keep(self, instance_id: str, found: Found, bell: Bell) -> None:
        """Keeps what was read since the bell was hung, if it may be repeated."""
        if found.known and self._store.told and not bell.stale:
            until = self._monotonic() + (ANSWER_S if self._store.alone else LOOK_S)
            self._kept[instance_id] = msgspec.structs.replace(found, until=until)

    def look_s(self, instance_id: str, now: float) -> float:
        """How long to wait without a look. The change feed reports other servers' changes, but it can fail."""
        if not self._store.told:
            return LOOK_UNTOLD_S
        found = self._kept.get(instance_id)
        return found.until - now if found is not None else LOOK_S

    async def read(self, instance_id: str, bell: Bell) -> Found:
        """Reads the row. Raises DatabaseTrouble."""
        reading: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._wanted.setdefault(instance_id, []).append(reading)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_wanted())
        found = await reading
        self.keep(instance_id, found, bell)
        return found

    async def _read_wanted(self) -> None:
        """Reads rows until none is wanted. Whatever is wanted during a read shares the next one."""
        wanted: dict[str, list[asyncio.Future[Found]]] = {}
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                rows = await self._rows(list(wanted))
                for instance_id, waiting in wanted.items():
                    for each in waiting:
                        if not each.done():
                            _settle(each, rows[instance_id])
        except BaseException:  # the server ends, or its store: nobody must wait for what will not come
            for waiting in (*wanted.values(), *self._wanted.values()):
                for each in waiting:
                    each.cancel()
            self._wanted = {}
            raise
        finally:
            self._reader = None

    async def _rows(self, instance_ids: list[str]) -> dict[str, Found | Exception]:
        try:
            found = await self._store.read(
                lambda tx: {each: self._table.found(tx, each) for each in instance_ids}, background=True
            )
        except Exception as error:
            if len(instance_ids) == 1 or isinstance(error, DatabaseTrouble):
                return dict.fromkeys(instance_ids, error)
            return {key: row for each in instance_ids for key, row in (await self._rows([each])).items()}  # whose error it is
        return dict(found)


def _settle(waiting: asyncio.Future[Found], row: Found | Exception) -> None:
    if isinstance(row, Exception):
        waiting.set_exception(row)
    else:
        waiting.set_result(row)
