"""Executors that leave: reminds those that missed the request, and releases those that have nothing more to wait for.

Spark releases an executor once all its blocks have moved, and retries forever with blocks that cannot move: a cached block that
every other executor has or that none has room for, or a shuffle file that was lost while it moved. So the driver, which knows
where every block is, watches. While tasks run on an executor or its blocks move, it has all the time that its cluster gives it;
when nothing has moved for a while, it is released. Data lost with it is recomputed where needed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from ..clock import Clock
from ..processes import children
from ..protocol import Log

EXECUTOR_CLASS = b"CoarseGrainedExecutorBackend"
STILL_S = 15.0
ROUND_MARGIN_S = 5.0


class Held(NamedTuple):
    """What a leaving executor still has to do and to hand over."""

    busy: bool  # tasks run on it
    cached: int  # blocks of cached data
    outputs: int  # of map tasks, for shuffles


class StillMeter:
    """Tells on which executors nothing has moved for `still_s`. Pure: times are seconds of any clock."""

    def __init__(self, still_s: float) -> None:
        self._still_s = still_s
        self._since: dict[str, tuple[Held, float]] = {}

    def sample(self, leaving: Mapping[str, Held], now: float) -> list[str]:
        """`leaving`: what each leaving executor holds now, by id. Any change counts as movement, and so do running tasks."""
        before, self._since = self._since, {}
        for name, held in leaving.items():
            known = before.get(name)
            self._since[name] = known if known is not None and known[0] == held and not held.busy else (held, now)
        return [name for name, (_, since) in self._since.items() if now - since >= self._still_s]

    def moved(self, name: str, now: float) -> None:
        """Records a movement that the counts do not show yet."""
        self._since[name] = (self._since[name][0], now)


class Leavable(Protocol):
    """What this module needs of a driver. Every method raises Py4JError."""

    migration_round_s: float  # Spark's pause between two searches for blocks that have to move

    def leaving(self) -> dict[str, Held]:
        """Returns the leaving executors, by id."""
        ...

    def uploads(self, executor: str) -> bool:
        """Whether the executor is sending a shuffle file to another one now. Large files take a while; Spark itself gives up
        stuck ones."""
        ...

    def let_go(self, executor: str) -> None:
        """Removes an executor from Spark and ends it."""
        ...


class Leavers:
    """Looks after the leaving executors."""

    def __init__(self, driver: Leavable, log: Log, clock: Clock = time.monotonic) -> None:
        self._driver = driver
        self._log = log
        self._clock = clock
        self._meter = StillMeter(max(STILL_S, driver.migration_round_s + ROUND_MARGIN_S))

    def look(self) -> None:
        """Releases executors that have nothing more to wait for. Raises Py4JError."""
        leaving = self._driver.leaving()
        for name in self._meter.sample(leaving, self._clock()):
            if self._driver.uploads(name):
                self._meter.moved(name, self._clock())
                continue
            held = leaving[name]
            self._log.log(
                f"executor {name} leaves with {held.cached} cached blocks and {held.outputs} shuffle outputs that no other "
                "executor would take; what is needed of them is computed again"
            )
            self._driver.let_go(name)


def nudge_executors(worker_pid: int) -> None:
    """Tells a worker's executors again to leave. An executor that was still starting when its worker was retired missed the
    request and would take tasks forever. Executors that are already leaving ignore it; one that cannot handle the signal yet
    has no work and ends."""
    for pid in children(worker_pid):
        with contextlib.suppress(OSError):
            if EXECUTOR_CLASS in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGPWR)
