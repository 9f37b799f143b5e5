"""Passes on what a process writes."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterable


class Pump:
    """Passes on what the JVM writes, on a thread of its own: whoever reads it may be slow."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, patience_s: float) -> None:
        """Passes on what is left to read now, for `patience_s` at most. The JVM's children may go on to hold the other end."""
        os.close(self._stop)
        self._thread.join(patience_s)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        last = False
        while not last:
            last = any(fd == self._stopped for fd, _ in poll.poll())
            try:
                ended = True
                for piece in available(self._source):
                    ended = False
                    write_all(self._target, piece)
                if ended and not last:
                    break
            except OSError:  # nobody reads any more: the JVM shall notice it
                break
        os.close(self._source)


def write_all(fd: int, data: bytes) -> None:
    """Raises OSError."""
    while data:
        data = data[os.write(fd, data) :]


def available(fd: int) -> Iterable[bytes]:
    """Yields what can be read from a descriptor without waiting."""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(fd, 1 << 16):
            yield piece
