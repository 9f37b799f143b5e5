"""Decides from samples whether a driver is in use. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

ACTIVITY_EVERY_MS = 5_000
IDLE_LOOKS = 4


class Activity(NamedTuple):
    """A driver's activity: whether something runs now, how many jobs there have been, and what changes with each use of
    Connect. `streams`: whether a streaming query is active, also between two batches."""

    busy: bool
    jobs: int
    connect: tuple[int, ...]
    streams: bool = False


class JobsLook:
    """Decides when the driver must be asked for its active jobs. Pure.

    The number of all jobs so far is cheap to ask, and while it stays the same nothing begins. A new job is counted a moment
    before it is active, so one look that finds nothing proves nothing.
    """

    def __init__(self) -> None:
        self._jobs = -1
        self._idle = 0  # looks in a row at this number of jobs, that found none of them active

    def due(self, jobs: int) -> bool:
        if jobs != self._jobs:
            self._jobs, self._idle = jobs, 0
        return self._idle < IDLE_LOOKS

    def saw(self, active: bool) -> None:
        self._idle = 0 if active else self._idle + 1


class ActivityMeter:
    """Turns samples into reports: beginnings and ends immediately, a changing last activity every few seconds. Pure."""

    def __init__(self) -> None:
        self._jobs = -1
        self._connect: tuple[int, ...] = ()
        self._last_ms = 0
        self._told_ms = 0
        self._told_busy = False

    def touch(self, now: int) -> None:
        self._last_ms = self._told_ms = now

    def overlook(self, activity: Activity) -> None:
        """Takes jobs that have run for nobody."""
        self._jobs = activity.jobs

    def sample(self, activity: Activity, commands: tuple[bool, int], now: int) -> dict[str, Any] | None:
        """`commands`: (one runs now, epoch ms of the last one). Returns `busy` and `last_activity_ms` if they should be
        reported."""
        busy = activity.busy or activity.streams or commands[0]
        used = any(activity.connect) and activity.connect != self._connect
        if busy or used or (self._jobs >= 0 and activity.jobs != self._jobs):  # it may begin and end between two samples
            self._last_ms = now
        self._jobs, self._connect = activity.jobs, activity.connect
        self._last_ms = max(self._last_ms, min(now, commands[1]))
        turned = busy != self._told_busy
        moved = self._last_ms > self._told_ms and now - self._told_ms >= ACTIVITY_EVERY_MS
        if not turned and not moved:
            return None
        self._told_busy, self._told_ms = busy, self._last_ms
        return {"busy": busy, "last_activity_ms": self._last_ms}
