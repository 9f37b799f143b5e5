"""The locks of a runtime: one installer at a time, one trainer at a time, one installer of its packages."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brickyard.machine import locks
from brickyard.runtime import progress as steps
from brickyard.runtime.progress import Board, Progress

TRAINER = "trainer"
ENDS_S = 10.0
LOOK_S = 0.05  # a cluster's nodes wait for the same installation, and go on one after the other


@contextlib.contextmanager
def locked(environment: str, cache_dir: Path, progress: Progress) -> Iterator[Board]:
    """Admits one installer at a time; the kernel frees the lock of a killed one. While waiting, shows the other one's
    progress."""
    board = Board(environment, cache_dir)
    with _file(environment, cache_dir, "lock").open("w") as lock:
        note = "The installation is under way"
        told = 0.0
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if now - told >= steps.PUBLISH_EVERY_S and (report := board.read()):
                    progress(msgspec.structs.replace(report, note=note))
                    note, told = "", now
                time.sleep(LOOK_S)
        board.clear()  # removes what a killed installer left
        try:
            yield board
        finally:
            board.clear()


@contextlib.contextmanager
def sole(environment: str, cache_dir: Path, kind: str = TRAINER) -> Iterator[bool]:
    """Admits one process of a kind at a time, such as a trainer. Yields whether it is this one."""
    with _file(environment, cache_dir, kind).open("a+") as file:
        if not locks.take(file.fileno()):
            yield False
            return
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield True


def at_work(environment: str, cache_dir: Path, kind: str = TRAINER) -> bool:
    """Whether a process of that kind runs."""
    try:
        return locks.is_taken(_file(environment, cache_dir, kind))
    except OSError:
        return False


def end_work(environment: str, cache_dir: Path, kind: str = TRAINER) -> None:
    """Ends a process of that kind, if one runs: what it has made so far is thrown away. Raises OSError."""
    file = _file(environment, cache_dir, kind)
    deadline = time.monotonic() + ENDS_S
    while at_work(environment, cache_dir, kind) and time.monotonic() < deadline:
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGTERM)
        time.sleep(0.05)


def _file(environment: str, cache_dir: Path, kind: str) -> Path:
    place = cache_dir / "locks"
    place.mkdir(parents=True, exist_ok=True)
    return place / f"{environment}.{kind}"
