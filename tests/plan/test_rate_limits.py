"""Token buckets never let more through than their limit, and never make anybody wait for longer than they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.ratelimits import DOCUMENTED, limit_of, rates
from brickyard.plan.ratelimits import Limit, spent, wait_s

LIMITS = st.builds(Limit, burst=st.integers(1, 50).map(float), interval_s=st.floats(0.001, 10))
PAUSES = st.lists(st.floats(0, 30), max_size=200)


@given(limit=LIMITS, pauses=PAUSES)
def test_no_window_holds_more_calls_than_the_burst_and_the_rate_allow(limit: Limit, pauses: list[float]) -> None:
    now, full, passed = 100.0, 0.0, []
    for pause in pauses:
        now += pause
        if not wait_s(full, limit, now):
            full = spent(full, limit, now)
            passed.append(now)
    for first, began in enumerate(passed):
        for last in range(first, len(passed)):
            allowed = limit.burst + (passed[last] - began) / limit.interval_s
            assert last - first + 1 <= allowed + 1e-3


@given(limit=LIMITS, pauses=PAUSES)
def test_after_the_wait_the_call_passes(limit: Limit, pauses: list[float]) -> None:
    now, full = 100.0, 0.0
    for pause in pauses:
        now += pause
        wait = wait_s(full, limit, now)
        assert wait <= limit.interval_s + 1e-6
        now += wait
        assert wait_s(full, limit, now) <= 1e-6
        full = spent(full, limit, now)


def test_the_setting_changes_the_documented_limits() -> None:
    assert rates("") == dict(DOCUMENTED)
    assert rates(" OFF ") == {}
    assert rates("dbfs=5, secrets=0, *=50") == {**{k: v for k, v in DOCUMENTED.items() if k != "secrets"}, "dbfs": 5, "*": 50}


@pytest.mark.parametrize("text", ["dbfs", "dbfs=", "=5", "dbfs=-1", "dbfs=nan", "dbfs=inf", "dbfs=a", "dbfs=1=2"])
def test_a_wrong_setting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=CALLS_PER_SECOND"):
        rates(text)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("dbfs.put", "dbfs"),
        ("dbfsx.put", "*"),
        ("jobs.runs_get", "jobs.runs_get"),
        ("jobs.runs_get_output", "*"),
        ("permissions.get", "permissions.get"),
        ("permissions.set", "permissions"),
    ],
)
def test_the_longest_name_that_fits_counts(operation: str, name: str) -> None:
    assert limit_of(operation, {**DOCUMENTED, "*": 1.0}) == name
