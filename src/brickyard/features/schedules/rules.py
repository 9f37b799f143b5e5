"""Schedules that start and stop clusters: when the next run is due, and what a server does about a missed one. Pure.

A schedule is a cron expression in a time zone. Daylight saving as in Debian's cron: a time that the clock skips runs right after
the change; a time that comes twice runs once, unless the expression runs every hour.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from brickyard.features.schedules.model import Missed, Schedule

MISSED_MS = 60_000  # a run that is later than this was missed: no server was there
MOST_OFTEN_MS = 5 * 60_000
HORIZON_MS = 4 * 366 * 86_400_000  # a schedule without a run in so long never runs


class ScheduleError(ValueError):
    """The schedule cannot be used. The message names the field and the rule."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Due(NamedTuple):
    """What to do about a schedule now."""

    run: bool
    next_ms: int  # when to look again


def check(schedule: Schedule, *, now_ms: int) -> None:
    """Raises ScheduleError for a schedule that could not be used, or that would never run or run too often."""
    following = _runs(schedule, now_ms)
    first = _next(following)
    if first is None or first - now_ms > HORIZON_MS:
        raise ScheduleError(
            "cron", f"cron {schedule.cron!r} never comes: no day has that date. Check the day of month and the month."
        )
    last = first
    for _ in range(20):
        if (each := _next(following)) is None:
            return
        if each - last < MOST_OFTEN_MS:
            raise ScheduleError("cron", f"cron {schedule.cron!r} comes more often than every {MOST_OFTEN_MS // 60_000} minutes.")
        last = each


def next_ms(schedule: Schedule, *, after_ms: int) -> int:
    """The first run after that time, in epoch milliseconds; 0 if there is none or the schedule is paused. The schedule must have
    passed `check`."""
    if schedule.paused:
        return 0
    found = _next(_runs(schedule, after_ms))
    return 0 if found is None else found


def due(schedule: Schedule, *, next_ms: int, now_ms: int) -> Due:
    """What to do when `next_ms`, the run that was planned last, has come. Runs that were missed since then count as one."""
    if not next_ms or now_ms < next_ms:
        return Due(False, next_ms)
    missed = now_ms - next_ms > MISSED_MS
    return Due(not missed or schedule.missed is Missed.RUN, _following(schedule, now_ms))


def _following(schedule: Schedule, now_ms: int) -> int:
    return next_ms(schedule, after_ms=now_ms)


def _runs(schedule: Schedule, after_ms: int) -> CronSim:
    try:
        zone = ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(
            "timezone", f"timezone {schedule.timezone[:80]!r} is no IANA time zone. Use a name such as Europe/Berlin or UTC."
        ) from None
    if len(schedule.cron.split()) != 5 or len(schedule.cron) > 256:
        raise ScheduleError(
            "cron", "cron must have five fields: minute, hour, day of month, month, day of week, such as '0 8 * * MON-FRI'."
        )
    try:
        return CronSim(schedule.cron, datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone))
    except CronSimError as error:
        raise ScheduleError("cron", f"cron {schedule.cron!r} cannot be read: {error}.") from error


def _next(runs: CronSim) -> int | None:
    found = next(runs, None)
    return None if found is None else int(found.timestamp() * 1000)
