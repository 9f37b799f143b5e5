"""Units of work on their way through the writer (`store.writer`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from brickyard.store.changeset import Changes
from brickyard.store.tx import Tx

Work = Callable[[Tx], Any]


class Unit(msgspec.Struct, frozen=True):
    """A unit of work, the callback for its outcome, and the event loop that runs it (None: the writer's own thread). `inserts`:
    it locks no row that exists."""

    work: Work
    done: Callable[[Outcome], None]
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


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """A unit's place in a queue, and when it was queued (time.monotonic())."""

    unit: Unit
    since_s: float
