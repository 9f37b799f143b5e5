"""Schedules: the next run in its time zone, across changes of the clock, and runs that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.features.schedules.model import Action, Missed, Schedule
from brickyard.features.schedules.rules import MISSED_MS, MOST_OFTEN_MS, ScheduleError, check, due, next_ms
from tests.support.golden import Golden

BERLIN = "Europe/Berlin"
NOW = 1_795_000_000_000


def schedule(cron: str, timezone: str = BERLIN, **others: object) -> Schedule:
    return Schedule(action=Action.START, cron=cron, timezone=timezone, **others)  # type: ignore[arg-type] # keyword arguments of a struct


def ms(text: str, timezone: str = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp() * 1000)


def local(at_ms: int, timezone: str = BERLIN) -> str:
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(timezone)).isoformat()


@pytest.mark.parametrize(
    ("cron", "after", "runs"),
    [
        ("0 8 * * MON-FRI", "2026-11-20T08:00", ["2026-11-23T08:00:00+01:00", "2026-11-24T08:00:00+01:00"]),
        ("0 8 * * *", "2026-03-28T09:00", ["2026-03-29T08:00:00+02:00", "2026-03-30T08:00:00+02:00"]),
        # The clock goes from 02:00 to 03:00: what was planned between runs at 03:00.
        ("30 2 * * *", "2026-03-28T09:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        # It goes from 03:00 back to 02:00: once is enough.
        ("30 2 * * *", "2026-10-24T09:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        ("0 0 29 2 *", "2026-01-01T00:00", ["2028-02-29T00:00:00+01:00", "2032-02-29T00:00:00+01:00"]),
    ],
)
def test_runs_follow_the_clock_on_the_wall(cron: str, after: str, runs: list[str]) -> None:
    at = ms(after)
    for expected in runs:
        at = next_ms(schedule(cron), after_ms=at)
        assert local(at) == expected


@given(st.integers(0, 4_000_000_000_000), st.sampled_from([BERLIN, "UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"]))
def test_a_run_is_always_later_and_one_day_has_one(after: int, zone: str) -> None:
    daily = schedule("30 2 * * *", zone)
    first = next_ms(daily, after_ms=after)
    second = next_ms(daily, after_ms=first)
    assert after < first < second
    assert timedelta(hours=22) <= timedelta(milliseconds=second - first) <= timedelta(hours=50)  # Apia once skipped a day


@given(st.integers(0, 10 * 86_400_000), st.sampled_from(Missed))
def test_missed_runs_count_as_one_and_nothing_runs_twice(late_ms: int, missed: Missed) -> None:
    daily = schedule("0 8 * * *", missed=missed)
    planned = next_ms(daily, after_ms=NOW)
    assert due(daily, next_ms=planned, now_ms=planned - 1) == (False, planned)
    now = planned + late_ms
    decided = due(daily, next_ms=planned, now_ms=now)
    assert decided.run == (late_ms <= MISSED_MS or missed is Missed.RUN)
    assert decided.next_ms > now
    assert not due(daily, next_ms=decided.next_ms, now_ms=now).run


def test_a_paused_schedule_never_runs() -> None:
    paused = schedule("0 8 * * *", paused=True)
    assert next_ms(paused, after_ms=NOW) == 0
    assert due(paused, next_ms=0, now_ms=NOW) == (False, 0)


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("* * * * *", BERLIN),
        ("0,1 8 * * *", BERLIN),
        ("0 0 31 2 *", BERLIN),
        ("0 8 * *", BERLIN),
        ("0 8 * * * *", BERLIN),
        ("@daily", BERLIN),
        ("61 8 * * *", BERLIN),
        ("0 8 * * NOON", BERLIN),
        ("0 8 * * " + "1," * 200, BERLIN),
        ("0 8 * * *", "Mars/Olympus"),
        ("0 8 * * *", "../../etc/passwd"),
        ("0 8 * * *", ""),
        ("0 8 * * *", "A" * 5000),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_rule(cron: str, zone: str, golden: Golden) -> None:
    with golden.refused(ScheduleError):
        check(schedule(cron, zone), now_ms=NOW)


def test_every_five_minutes_is_allowed() -> None:
    check(schedule("*/5 * * * *"), now_ms=NOW)
    assert MOST_OFTEN_MS == 300_000
    assert datetime.fromtimestamp(next_ms(schedule("*/5 * * * *", "UTC"), after_ms=NOW) / 1000, UTC).minute % 5 == 0
