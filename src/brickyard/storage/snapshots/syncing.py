"""Makes written files durable on threads of their own: syncs that run side by side share what each would pay for alone."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

_THREADS = 8  # they wait for the disk, and hardly compute
_WAITING = 64  # open files: what is not on the disk yet stays bounded


class Syncing:
    """`add` files from any thread, then `settle`. At the end of its `with` block nothing runs any more."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS)
        self._room = threading.Semaphore(_WAITING)
        self._lock = threading.Lock()
        self._pending = deque[Future[None]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown()

    def add(self, fd: int, then: Callable[[], None] = lambda: None) -> None:
        """Takes over the descriptor of a file or directory that is complete. `then` is called, on another thread, once it is
        durable. Waits while many are on their way. Raises the OSError of an earlier one."""
        self._room.acquire()  # given back by the thread that syncs it
        with self._lock:
            self._pending.append(self._threads.submit(self._sync, fd, then))
            over = [self._pending.popleft() for _ in range(self._over())]
        for each in over:
            each.result()

    def settle(self) -> None:
        """Waits until everything that was added is durable. Raises OSError if something may not be."""
        while self._pending:
            self._pending.popleft().result()

    def _over(self) -> int:
        """How many at the front are over."""
        return next((number for number, each in enumerate(self._pending) if not each.done()), len(self._pending))

    def _sync(self, fd: int, then: Callable[[], None]) -> None:
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
            self._room.release()
        then()
