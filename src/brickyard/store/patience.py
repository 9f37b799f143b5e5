"""Calls that wait for their turn in the database, where others are refused: whoever sends them could not send them again."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

from brickyard.domain.errors import DatabaseAway, RequestLimitExceeded

T = TypeVar("T")

PAUSE_S = (0.25, 5.0)  # the shortest and the longest pause between two attempts


class Patience(Protocol):
    """A call that waits."""

    async def pause(self, seconds: float) -> None:
        """Waits so long. Raises once nobody is left who would hear the answer."""
        ...


_patience: ContextVar[Patience | None] = ContextVar("patience", default=None)


@contextlib.contextmanager
def patient(patience: Patience) -> Iterator[None]:
    """The block's reads and writes wait for their turn."""
    token = _patience.set(patience)
    try:
        yield
    finally:
        _patience.reset(token)


def is_patient() -> bool:
    """Whether the call under way waits."""
    return _patience.get() is not None


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """What the attempt returns, once it is not refused for the moment's load or trouble."""
    patience = _patience.get()
    pause_s, longest_s = PAUSE_S
    while True:
        try:
            return await attempt()
        except (DatabaseAway, RequestLimitExceeded):
            if patience is None:
                raise
        await patience.pause(pause_s)
        pause_s = min(2 * pause_s, longest_s)
