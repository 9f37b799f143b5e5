"""What a call of the API commits together with its first change: the entry in the audit log (`features/audit/service.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

from brickyard.store.tx import Tx

T = TypeVar("T")
Commit = Callable[[Callable[[Tx], T]], Awaitable[T]]


class Companion(Protocol):
    """What a call of the API adds to its first commit, so that both happen or neither does."""

    def wanted(self) -> bool:
        """Whether it is still to be added."""
        ...

    async def write(self, work: Callable[[Tx], T], commit: Commit[T]) -> T:
        """Commits the work with what is added to it."""
        ...


_current: ContextVar[Companion | None] = ContextVar("companion", default=None)


@contextlib.contextmanager
def beside(companion: Companion | None) -> Iterator[None]:
    """What the block commits first takes the companion along."""
    token = _current.set(companion)
    try:
        yield
    finally:
        _current.reset(token)


def wanting() -> Companion | None:
    """The companion of the call under way, if it is still to be added."""
    found = _current.get()
    return found if found is not None and found.wanted() else None
