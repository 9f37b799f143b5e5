"""What agents are told in their long polls: kept until it may have changed, so that one that waits in vain costs next to nothing.

Agents that must be read for at the same time share one read: a pass changes the assignments of several nodes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import Assignment
from brickyard.store.store import Store
from brickyard.store.tx import Tx

LOOK_S, LOOK_UNTOLD_S = 10.0, 1.0  # between checks for other servers' changes: with and without a working change feed
ANSWER_S = 600.0  # how long the answer "nothing has changed" may be repeated without a read


class Bell:
    """Rings when a row may have changed. Hang it before a read: a change after that rings it, so none is missed."""

    __slots__ = ("_waiting", "rung", "stale")

    def __init__(self) -> None:
        self.rung = False
        self.stale = False  # what was read since it was hung may be out of date
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self.rung = self.stale = True
        self._go_on()

    async def wait(self, seconds: float) -> bool:
        """Waits until it rings. Returns False if it has not after that time."""
        if not self.rung:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()  # and no `timeout`, which is several objects: thousands of agents wait here
            timer = loop.call_later(seconds, self._go_on)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        return self.rung

    def _go_on(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Found(msgspec.Struct, frozen=True, gc=False):
    """What an instance's row says: whether the instance is wanted, and the version of its assignment (0: none). `whole`: with the
    assignment itself; without it once the agent has it and need not be told again. `until`: when to read again, at the latest."""

    known: bool
    version: int = 0
    assignment: Assignment | None = None
    whole: bool = True
    until: float = 0.0


class Polls:
    """For one event loop. `found` reads one instance's row; it may run in a transaction that also writes."""

    def __init__(self, *, store: Store, found: Callable[[Tx, str], Found], monotonic: Callable[[], float]) -> None:
        self._store = store
        self._found = found
        self._monotonic = monotonic
        self._kept: dict[str, Found] = {}
        self._bells: dict[str, list[Bell]] = {}
        self._wanted: dict[str, list[asyncio.Future[Found]]] = {}  # for the next read
        self._reader: asyncio.Task[None] | None = None

    # -- changes -----------------------------------------------------------------------------------------------------

    def hang(self, instance_id: str) -> Bell:
        """A bell for the instance's row. Take it down again."""
        bell = Bell()
        self._bells.setdefault(instance_id, []).append(bell)
        return bell

    def take_down(self, instance_id: str, bell: Bell) -> None:
        bells = self._bells[instance_id]
        bells.remove(bell)
        if not bells:
            del self._bells[instance_id]

    def changed(self, instance_ids: Iterable[str]) -> None:
        """The assignments of these may have changed: nothing is repeated, and whoever waits looks."""
        for instance_id in instance_ids:
            self._kept.pop(instance_id, None)
            self.ring(instance_id)

    def ring(self, instance_id: str) -> None:
        """Whoever waits looks."""
        for bell in self._bells.get(instance_id, ()):
            bell.ring()

    def all_changed(self) -> None:
        """Anything may have changed."""
        self._kept.clear()
        for instance_id in self._bells:
            self.ring(instance_id)

    def forget(self, instance_id: str) -> None:
        """The instance is no longer wanted, or gone: its agent hears so at its next call."""
        self._kept.pop(instance_id, None)
        for bell in self._bells.get(instance_id, ()):
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
            found = await self._store.read(lambda tx: {each: self._found(tx, each) for each in instance_ids}, background=True)
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
