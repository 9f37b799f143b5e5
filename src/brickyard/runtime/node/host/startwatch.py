"""Ends a start whose executors do not come to work, with their own last lines. The decision is pure."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..clock import Clock
from . import failures

if TYPE_CHECKING:
    from ..documents import FailureDocument
    from ..spark.driver import Driver
    from ..spark.standalone import Master
    from .report import Report

LOOK_S = 5.0  # between two looks at a start that is not over
ROUNDS, FEWEST = 2, 4  # executors that ended: so many for each worker, and at least so many in all
SILENT_S = 300.0  # without an executor that has registered, although there is a worker
MOST_NOTED = 20  # executors of one worker
_NOTES = "ended-executors"


def reason(*, ended: int, workers: int, registered: int, worker_s: float) -> str:
    """Says why a start makes no progress, or "" while it may. `ended`: executors that have ended by themselves since the start,
    in which none has finished a task; `registered`: those that the driver knows now; `worker_s`: for how long it has had a
    worker."""
    if ended >= max(FEWEST, ROUNDS * workers):
        return f"Spark's executors did not start: {ended} have ended, and none has finished a task"
    if not registered and worker_s > SILENT_S:
        return f"Spark's executors did not start: none has registered with the driver within {SILENT_S:.0f} s"
    return ""


class StartingCluster(Protocol):
    """A cluster whose driver starts. Every method raises Py4JError, OSError."""

    def alive_workers(self) -> int: ...

    def registered_executors(self) -> int:
        """Returns how many the driver knows now."""
        ...

    def ended_executors(self) -> int:
        """Returns how many have ended by themselves."""
        ...


class SparkStart:
    """A cluster whose driver starts, as its driver and master see it."""

    def __init__(self, report: Report, driver: Driver, master: Master) -> None:
        self._report, self._driver, self._master = report, driver, master

    def alive_workers(self) -> int:
        return len(self._report.told("alive_workers") or ())

    def registered_executors(self) -> int:
        return self._driver.registered()

    def ended_executors(self) -> int:
        return self._master.ended_executors()


class StartWatch:
    """Looks at the executors of a start, again and again."""

    def __init__(self, cluster: StartingCluster, *, monotonic: Clock = time.monotonic) -> None:
        self._cluster, self._monotonic = cluster, monotonic
        self._since: float | None = None  # the first worker is there

    def look(self) -> str:
        """Returns why the start makes no progress, or "" while it may. Raises what its questions raise."""
        workers, now = self._cluster.alive_workers(), self._monotonic()
        if self._since is None and not workers:
            return ""
        self._since = self._since if self._since is not None else now
        return reason(
            ended=self._cluster.ended_executors(),
            workers=workers,
            registered=self._cluster.registered_executors(),
            worker_s=now - self._since,
        )


def failure(why: str, lines: str, driver_log: Path) -> FailureDocument:
    """Returns the failure of such a start. `lines`: the last ones of an executor, "" if there are none."""
    said = failures.plain_message(lines) if lines else failures.lost_executor(failures.read_end(driver_log))
    text = f"{why}: {said}" if said else f"{why}."
    return failures.failure("SPARK_STARTUP_FAILURE", text, lines or failures.tail([driver_log]))


class EndedExecutors:
    """Notes the last lines of a worker's executors that have ended where the driver can read them: in `shared`, a directory that
    all nodes of the cluster see."""

    def __init__(self, *, work: Path, shared: Path, worker: str) -> None:
        self._work = work
        self._file = shared / _NOTES / worker.replace(":", "-")
        self._noted: set[tuple[str, str]] = set()
        self._missing: set[tuple[str, str]] = set()  # at the last look

    def note(self, running: Iterable[tuple[str, str]]) -> None:
        """Looks for executors that have ended. `running`: application and number of each that runs. One that has just started may
        be missing there, so it has to be missing at two looks."""
        if len(self._noted) >= MOST_NOTED:
            return
        started = {(app, number) for app in _names(self._work) for number in _names(self._work / app)}
        before, self._missing = self._missing, started - set(running) - self._noted
        for app, number in sorted(self._missing & before, key=lambda each: (each[0], len(each[1]), each[1])):
            self._noted.add((app, number))
            self._write(failures.tail([self._work / app / number / "stderr"]))

    def _write(self, lines: str) -> None:
        with contextlib.suppress(OSError):  # it only explains what may go wrong
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(lines)


def last_lines(shared: Path) -> str:
    """Returns the last lines of the executor that ended last, as workers have noted them; "" if there are none."""
    directory = shared / _NOTES
    newest = sorted((directory / name for name in _names(directory)), key=_changed_ns)
    return failures.tail(newest[-1:])


def _names(directory: Path) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if not name.startswith(".")]  # noqa: PTH208 - names only
    except OSError:
        return []


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
