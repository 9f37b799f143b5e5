"""How executors leave: told again when they have not heard it, and let go when they have nothing more to wait for.

Spark lets one go once all its blocks have moved, and tries for ever with those that cannot: a cached block of which every other
executor has a copy, or for which none has room, or a shuffle file that was lost while it moved. So the driver, which knows where
every block is, watches. While tasks run on an executor or its blocks move, it has all the time that its cluster gives it; when
nothing has moved for a while it is let go. What is lost with it is computed again where it is needed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from ..processes import children

EXECUTOR_CLASS = b"CoarseGrainedExecutorBackend"
STILL_S = 15.0
ROUND_MARGIN_S = 5.0


class Held(NamedTuple):
    """What an executor that leaves still has to do and to give away."""

    busy: bool  # tasks run on it
    cached: int  # blocks of cached data
    outputs: int  # of map tasks, for shuffles


class StillMeter:
    """Tells which executors nothing has moved on for `still_s`. Pure: times are any clock's seconds."""

    def __init__(self, still_s: float) -> None:
        self._still_s = still_s
        self._since: dict[str, tuple[Held, float]] = {}

    def sample(self, leaving: Mapping[str, Held], now: float) -> list[str]:
        """`leaving`: what each executor that leaves holds now, by id. Any change is movement, and so are tasks."""
        before, self._since = self._since, {}
        for name, held in leaving.items():
            known = before.get(name)
            self._since[name] = known if known is not None and known[0] == held and not held.busy else (held, now)
        return [name for name, (_, since) in self._since.items() if now - since >= self._still_s]

    def moved(self, name: str, now: float) -> None:
        """Something moves there that no count tells yet."""
        self._since[name] = (self._since[name][0], now)


class Leavable(Protocol):
    """What is asked of a driver. Every method raises Py4JError."""

    migration_round_s: float  # how long Spark waits between two looks for blocks that have to move

    def leaving(self) -> dict[str, Held]:
        """The executors that leave, by id."""
        ...

    def uploads(self, executor: str) -> bool:
        """Whether the executor is sending a shuffle file to another one now. Large ones take their time; Spark itself gives up
        one that is stuck."""
        ...

    def let_go(self, executor: str) -> None:
        """Have Spark do without an executor, and end it."""
        ...


class Leavers:
    """Looks after the executors that leave."""

    def __init__(self, driver: Leavable, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._log = log
        self._clock = clock
        self._meter = StillMeter(max(STILL_S, driver.migration_round_s + ROUND_MARGIN_S))

    def look(self) -> None:
        """Let go those that have nothing more to wait for. Raises Py4JError."""
        leaving = self._driver.leaving()
        for name in self._meter.sample(leaving, self._clock()):
            if self._driver.uploads(name):
                self._meter.moved(name, self._clock())
                continue
            held = leaving[name]
            self._log(
                f"executor {name} leaves with {held.cached} cached blocks and {held.outputs} shuffle outputs that no other "
                "executor would take; what is needed of them is computed again"
            )
            self._driver.let_go(name)


def nudge_executors(worker_pid: int) -> None:
    """Tell a worker's executors again to leave. One that was still starting when its worker was retired has not been told, and
    would take tasks for ever. Those that leave already take no notice; one that is not ready for the signal has no work and ends.
    """
    for pid in children(worker_pid):
        with contextlib.suppress(OSError):
            if EXECUTOR_CLASS in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGPWR)
