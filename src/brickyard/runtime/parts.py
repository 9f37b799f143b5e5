"""Parts of an installation that run side by side, and how long each took."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from brickyard.domain.clock import Monotonic

T = TypeVar("T")


class Span(NamedTuple):
    """When a part ran, in seconds since the beginning."""

    what: str
    begin_s: float
    end_s: float


class GivenUp(Exception):
    """Another part failed, so this one is not needed any more."""


class Parts:
    """Runs parts on threads. When one fails, or the block, the others are told to give up and waited for; the block ends with
    that failure."""

    def __init__(self, *, clock: Monotonic = time.monotonic) -> None:
        self.spans: list[Span] = []
        self._clock = clock
        self._began = clock()
        self._over = threading.Event()
        self._failure: BaseException | None = None  # the first one
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="install")

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        if kind is not None:
            self._over.set()
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        if isinstance(error, (GivenUp, CancelledError)) and self._failure is not None:
            raise self._failure from None

    def begin(self, what: str, work: Callable[[], T]) -> Future[T]:
        """Runs `work` on another thread."""

        def timed() -> T:
            try:
                with self.timed(what):
                    return work()
            except GivenUp:
                raise
            except BaseException as error:
                self._failure = self._failure or error
                self._over.set()
                raise

        return self._pool.submit(timed)

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Measures a part."""
        began = self._clock()
        yield
        self.spans.append(Span(what, began - self._began, self._clock() - self._began))

    def look(self) -> None:
        """Called often by every part. Raises GivenUp."""
        if self._over.is_set():
            raise GivenUp


def waterfall(spans: list[Span]) -> str:
    """Returns the parts in the order of their beginnings, for people: what, when it began, how long it took."""
    ordered = sorted(spans, key=lambda span: span.begin_s)
    return ", ".join(f"{each.what} {each.begin_s:.1f} + {each.end_s - each.begin_s:.1f} s" for each in ordered)
