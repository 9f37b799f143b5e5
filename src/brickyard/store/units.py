"""Units of work on their way through the writer (`store.writer`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec

from brickyard.store.changeset import Changes
from brickyard.store.tx import Tx

Work = Callable[[Tx], Any]


class Unit(msgspec.Struct, frozen=True):
    """A unit of work, the future for its result, and the event loop of that (None: a thread waits for it). `inserts`: it locks no
    row that exists."""

    work: Work
    future: asyncio.Future[Any] | Future[Any]
    loop: asyncio.AbstractEventLoop | None
    inserts: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a unit: its result or exception, and what its commit changed. `unsure`: it may have been committed, despite
    the exception."""

    unit: Unit
    result: Any = None
    error: BaseException | None = None
    changed: Changes | None = None
    unsure: bool = False

    def settle(self) -> None:
        """Tells who waits for it. Call it on the unit's event loop, if it has one."""
        future = self.unit.future
        if future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.result)


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """A unit's place in a queue, and when it was queued (time.monotonic())."""

    unit: Unit
    since_s: float
