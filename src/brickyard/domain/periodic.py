"""Loops: work beside the requests, for as long as a server runs. `server/supervisor.py` runs them."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Protocol

from brickyard.domain.errors import DatabaseTrouble, RequestLimitExceeded

AGAIN_S = 0.5  # before a pass that the database could not serve is repeated
LEASE_S = 5.0  # how soon, at the latest, a server notices that the work has become its own


class Lease(Protocol):
    """Whether work that one server at a time does is this server's now. Cheap: ask it each time."""

    def __call__(self) -> bool: ...


class Database(Protocol):
    """What passes need."""

    async def usable(self) -> None:
        """Return once it can be used."""
        ...


def always() -> bool:
    """The lease of work that every server does."""
    return True


class Loop(ABC):
    """Work that goes on until it is cancelled."""

    again_s: tuple[float, float] = (1.0, 5.0)  # pause before `run` is called again after an error: the first, and the longest

    @property
    def trouble(self) -> str:
        """What keeps failing while it runs, for readiness; "" if nothing does."""
        return ""

    async def first_pass(self) -> None:  # noqa: B027 - most loops have nothing to do then
        """Do what has to be done before the server serves."""

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled. After an error it is called again, as if it had never run."""


class Task(Loop):
    """A coroutine function as a loop."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work

    async def run(self) -> None:
        await self._work()


class Periodic(Loop):
    """Work that is repeated every `every_s` seconds, and soon after `wake`, but not before `pace_s` seconds are over.

    With a `database`, each pass waits until that can be used, and a pass that it fails is repeated. Any other error ends the run.
    """

    def __init__(
        self,
        *,
        every_s: float,
        pace_s: float = 0.0,
        later: bool = False,
        database: Database | None = None,
        held: Lease = always,
    ) -> None:
        """`later`: the first pass comes after `every_s`, too."""
        self.every_s = every_s  # a pass may change it
        self._pace_s = pace_s
        self._later = later
        self._database = database
        self._lease = held
        self.woken = False  # whether `wake` has asked for the pass that goes on
        self._bell = asyncio.Event()

    @abstractmethod
    async def run_once(self) -> object:
        """Do one pass. What it returns does not matter."""

    async def skip(self) -> None:
        """Do this instead of a pass while another server has the lease."""

    async def end(self) -> None:
        """Do this at the end of a run, whatever ends it."""

    def wake(self) -> None:
        """Ask for a pass soon."""
        self._bell.set()

    async def run(self) -> None:
        try:
            if self._later:
                await self._pause(self.every_s)
            while True:
                await self._pause(await self._pass())
        finally:
            await self.end()

    async def _pass(self) -> float:
        """Do a pass. Return the seconds until the next one."""
        if self._database is not None:
            await self._database.usable()
        self.woken = self._bell.is_set()
        self._bell.clear()
        held = self._lease()
        try:
            await (self.run_once() if held else self.skip())
        except (DatabaseTrouble, RequestLimitExceeded):
            if self._database is None:
                raise
            return min(self.every_s, AGAIN_S)
        return self.every_s if held else min(self.every_s, LEASE_S)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(self._pace_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - self._pace_s)):  # `wait_for` of Python 3.11 can lose a cancellation
                await self._bell.wait()
