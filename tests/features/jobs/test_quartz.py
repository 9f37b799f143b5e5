"""Quartz expressions: when they come, also over changes of the clock, and which are refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.jobs.quartz import next_ms


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("0 0 12 * * ?", "UTC", "2026-11-28T12:00", "2026-11-29T12:00"),
        ("0 15 10 ? * MON-FRI", "UTC", "2026-11-28T00:00", "2026-11-30T10:15"),
        ("0 15 10 ? * 2-6", "UTC", "2026-11-28T00:00", "2026-11-30T10:15"),
        ("0 15 10 ? * 1", "UTC", "2026-11-28T00:00", "2026-11-29T10:15"),  # 1 is Sunday
        ("0 15 10 L * ?", "UTC", "2026-11-28T00:00", "2026-11-30T10:15"),
        ("0 15 10 ? * 6L", "UTC", "2026-11-28T00:00", "2026-12-25T10:15"),  # the last Friday
        ("0 15 10 ? * 6#3", "UTC", "2026-11-28T00:00", "2026-12-18T10:15"),  # the third Friday
        ("0 0/5 14 * * ? *", "UTC", "2026-11-28T14:02", "2026-11-28T14:05"),
        ("30 10 * * * ?", "UTC", "2026-11-28T14:10:10", "2026-11-28T14:10:30"),
        ("0 30 2 * * ?", "Europe/Berlin", "2027-03-27T12:00", "2027-03-28T01:00"),  # 02:30 is skipped: right after the change
        ("0 30 2 * * ?", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30"),  # 02:30 comes twice: the first one
        ("0 30 2 * * ?", "Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30"),
    ],
)
def test_it_comes_at_its_times(expression: str, zone: str, after: str, expected: str) -> None:
    assert next_ms(expression, zone, after_ms=at(after)) == at(expected)


@given(st.integers(0, 59), st.integers(0, 59), st.integers(0, 23), st.integers(1_600_000_000, 1_900_000_000))
def test_it_always_comes_later(second: int, minute: int, hour: int, after_s: int) -> None:
    for zone in ("UTC", "America/New_York", "Australia/Lord_Howe"):
        found = next_ms(f"{second} {minute} {hour} * * ?", zone, after_ms=after_s * 1000)
        assert after_s * 1000 < found <= (after_s + 2 * 86_400) * 1000


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("0 12 * * ?", "UTC"),
        ("0 0 12 * * *", "UTC"),  # the day of the month and of the week
        ("0 0 12 ? * ?", "UTC"),
        ("0 0 12 15W * ?", "UTC"),
        ("0 0 12 L-3 * ?", "UTC"),
        ("0 0 12 * * ? 2030", "UTC"),
        ("0 0 25 * * ?", "UTC"),
        ("0 0 12 * * ?", "Mars/Base"),
        ("0 0 12 * * ?", "../etc/passwd"),
        ("x" * 300, "UTC"),
    ],
)
def test_what_cannot_be_read_is_refused(expression: str, zone: str) -> None:
    with pytest.raises(InvalidParameterValue):
        next_ms(expression, zone, after_ms=0)
