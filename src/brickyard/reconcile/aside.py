"""Rows whose work fails: they must not keep other rows from theirs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import structlog

from brickyard.domain.errors import RequestLimitExceeded
from brickyard.store.trouble import trouble_of

log = structlog.get_logger(__name__)

PAUSE_S = (1.0, 60.0)  # first and longest pause before a row's work is tried again

K = TypeVar("K", str, int)
T = TypeVar("T")


class Aside(Generic[K]):
    """Rows that are set aside, by key, because their work has failed with anything but trouble with the database. Each is tried
    again after longer and longer pauses. The log has the first error, and the first success after it."""

    def __init__(self, work: str, **about: str) -> None:
        """`work` begins the names of log entries, which say `about`, too."""
        self._work = work
        self._about = about
        self._pauses: dict[K, tuple[float, float]] = {}  # the last pause, and when it ends (time.monotonic())

    def ready(self, keys: Iterable[K]) -> list[K]:
        """Those of the rows whose turn it is."""
        now = time.monotonic()
        return [key for key in keys if self._pauses.get(key, (0.0, 0.0))[1] <= now]

    def failed(self, key: K) -> None:
        """Sets a row aside. Call it in the except block."""
        first_s, longest_s = PAUSE_S
        if key not in self._pauses:
            log.exception(f"{self._work}_failed", key=key, **self._about)
        pause_s = min(2 * self._pauses.get(key, (first_s / 2, 0.0))[0], longest_s)
        self._pauses[key] = (pause_s, time.monotonic() + pause_s)

    def worked(self, key: K) -> None:
        if self._pauses.pop(key, None) is not None:
            log.info(f"{self._work}_recovered", key=key, **self._about)

    @contextlib.contextmanager
    def around(self, key: K) -> Iterator[None]:
        """Sets the row aside if its work fails within."""
        try:
            yield
        except Exception as error:
            if _is_of_the_moment(error):
                raise
            self.failed(key)
        else:
            self.worked(key)

    async def together(self, keys: Iterable[K], work: Callable[[Sequence[K]], Awaitable[T]]) -> list[T]:
        """Does the work on the rows whose turn it is, all at once; if that fails, on each alone. Returns what that
        returns."""
        ready = self.ready(keys)
        done: list[T] = []
        try:
            done = [await work(ready)] if ready else []
        except Exception as error:
            if _is_of_the_moment(error):
                raise
        else:
            for key in ready:
                self.worked(key)
            return done
        for key in ready:
            with self.around(key):
                done.append(await work([key]))
        return done


def _is_of_the_moment(error: Exception) -> bool:
    """Whether the database or an overload is to blame. Within a transaction, the database's errors are not translated yet."""
    return isinstance(error, RequestLimitExceeded) or trouble_of(error) is not None
