"""A cluster's workspace directory, and how it is exchanged for another in one step that survives a kill at any point.

    current/          what nodes see
    making-N/         being filled for task N; worth nothing until it has another name
    ready-N/          complete, to become `current`
    old-N/            what was `current` before task N, until that is recorded as done
    done              the number of the last task that was done or given up
    lock              flock: whoever works on the directory

Nodes never see anything but `current`. Nothing exchanges it while the cluster has a node: the server's rows say so, and `done`
ends the work of a process that comes too late.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from brickyard.machine import files

_STEPS = ("making-", "ready-", "old-")


class WorkspaceDirectory:
    """The workspace directory of one cluster. Methods block, and raise OSError."""

    def __init__(self, top: Path) -> None:
        self._top = top

    @property
    def current(self) -> Path:
        return self._top / "current"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Waits until no other process works on the directory. Makes it if it does not exist."""
        if not self._exchanging():
            self.current.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._top / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def exchange(self, number: int, fill: Callable[[Path], None]) -> None:
        """Makes what `fill` puts into a new directory the current one, unless that has been done for this number or a later one.
        Call it within `locked`."""
        if self._done() >= number:
            self._clean()
            return
        making, ready, old = (self._top / f"{step}{number}" for step in _STEPS)
        if not ready.exists() and not (old.exists() and self.current.exists()):
            files.remove_tree(making)
            fill(making)
            making.rename(ready)
        if ready.exists():
            if self.current.exists():
                self.current.rename(old)
            ready.rename(self.current)
        self._finish(number)

    def give_up(self, number: int) -> None:
        """Puts everything back as it was before the exchange of this number, which will not happen any more. Call it within
        `locked`."""
        old = self._top / f"old-{number}"
        if self._done() < number and old.exists():
            if self.current.exists():  # the new one was in place already
                self.current.rename(self._top / f"making-{number}")
            old.rename(self.current)
        self._finish(number)

    def _finish(self, number: int) -> None:
        self._sync()  # the names, before the record that they are right
        files.write_atomic(self._top / "done", f"{max(number, self._done())}\n".encode())
        self._clean()

    def _clean(self) -> None:
        for path in list(self._top.iterdir()):
            if path.name.startswith(_STEPS):
                files.remove_tree(path)

    def _done(self) -> int:
        try:
            return int((self._top / "done").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _exchanging(self) -> bool:
        """Whether a process was killed while `current` was away."""
        return self._top.is_dir() and any(path.name.startswith("old-") for path in self._top.iterdir())

    def _sync(self) -> None:
        fd = os.open(self._top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
