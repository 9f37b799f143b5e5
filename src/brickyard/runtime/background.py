"""Runs a command while nothing else happens on this machine: at the lowest priority, stopped as soon as a node starts, ended and
begun anew if that lasts."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import psutil

from brickyard.domain.clock import Monotonic
from brickyard.runtime.idleness import Action, Seen, Work, decide
from brickyard.runtime.starting import anything_starts

LOOK_S = 0.1
WAIT_S = 60.0
MEASURE_S = 1.0  # between two looks at the use of the processors


class Interrupted(Exception):
    """The machine was needed for too long: the command was ended, and can be begun anew."""


class Lookout(Protocol):
    """Sees what happens on the machine."""

    def see(self, mine: Iterable[psutil.Process]) -> Seen:
        """What happens beside these processes."""
        ...


class Background:
    """Watches one command at a time: `wait` before it, `look` while it runs."""

    def __init__(
        self,
        cache_dir: Path,
        *,
        lookout: Lookout | None = None,
        clock: Monotonic = time.monotonic,
    ) -> None:
        self._lookout = lookout or Machine(cache_dir)
        self._clock = clock
        self._work = Work(busy_s=clock())
        self._stopped: set[int] = set()

    def wait(self) -> None:
        """Returns once nothing else happens."""
        while self._next([]) is not Action.RUN:
            time.sleep(LOOK_S)

    def wait_for_a_while(self, look: Callable[[], None]) -> None:
        """Returns once nothing else happens, or after `WAIT_S` without a node that starts. Calls `look` all the time."""
        begun = self._clock()
        while self._next([]) is not Action.RUN:
            look()
            if self._clock() - begun > WAIT_S and not self._lookout.see([]).starting:
                return
            time.sleep(LOOK_S)

    def look(self, pid: int, _lines: object = ()) -> None:
        """To be called all the time while process `pid` runs. Stops what it has started, and lets it go on. `pid` itself is never
        stopped: it is the launcher, which ends everything else when we die. Raises Interrupted when all is to end."""
        tree = _below(pid)
        action = self._next(tree)
        if action is Action.STOP:
            self._stop(pid)
        elif action is Action.RUN and self._stopped:
            for each in self._stopped:
                _send(each, signal.SIGCONT)
            self._stopped.clear()
        elif action is Action.END:
            self._stopped.clear()
            raise Interrupted  # the command ends with that, and all that it has started with it

    def _next(self, tree: list[psutil.Process]) -> Action:
        action, self._work = decide(self._work, self._lookout.see(tree), now_s=self._clock())
        return action

    def _stop(self, pid: int) -> None:
        """Stops all below a process, parents first, until no new ones turn up."""
        while new := [each.pid for each in _below(pid) if each.pid not in self._stopped]:
            for each in new:
                _send(each, signal.SIGSTOP)
                self._stopped.add(each)


class Machine:
    """Sees what the rest of the machine does."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._cores = os.cpu_count() or 1
        self._last = (time.monotonic(), _used_s(), 0.0)
        self._others = float(self._cores)  # until it is measured

    def see(self, mine: Iterable[psutil.Process]) -> Seen:
        at, used, own = self._last
        now = time.monotonic()
        if now - at >= MEASURE_S:
            used_now, own_now = _used_s(), sum(map(_times, mine))
            # A process that ends takes its time along: then the difference is no measure of ours, and counts as none.
            self._others = max(0.0, used_now - used - max(0.0, own_now - own)) / (now - at)
            self._last = (now, used_now, own_now)
        return Seen(
            starting=anything_starts(self._cache_dir),
            others=self._others,
            cores=self._cores,
            free_mb=psutil.virtual_memory().available >> 20,
        )


def lowest_priority() -> None:
    """Makes this process, and what it starts from now on, give way to everything else."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with contextlib.suppress(psutil.Error, OSError):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _used_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _times(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        found = process.cpu_times()
        return float(found.user + found.system)
    return 0.0
