"""Who is refused while the server is behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brickyard.plan.admission import LATE_S, PAUSE_S, SOON_S, pause_s, refused

LAGS = st.floats(min_value=0, max_value=1e6)
DRAWS = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(st.floats(min_value=0, max_value=SOON_S), DRAWS)
def test_a_server_that_keeps_up_refuses_nobody(lag_s: float, draw: float) -> None:
    assert not refused(lag_s, draw)
    assert pause_s(lag_s) == 0.0


@given(st.floats(min_value=LATE_S, max_value=1e6), DRAWS)
def test_one_that_is_far_behind_refuses_everybody(lag_s: float, draw: float) -> None:
    assert refused(lag_s, draw)


@given(LAGS, LAGS, DRAWS)
def test_who_is_refused_is_refused_by_a_server_that_is_further_behind(lag_s: float, more_s: float, draw: float) -> None:
    assert refused(lag_s + more_s, draw) >= refused(lag_s, draw)


@given(LAGS, LAGS)
def test_reads_wait_the_longer_the_further_it_is_behind_and_never_for_long(lag_s: float, more_s: float) -> None:
    assert 0.0 <= pause_s(lag_s) <= pause_s(lag_s + more_s) <= PAUSE_S
    assert (pause_s(lag_s) == PAUSE_S) == (lag_s >= LATE_S)


@given(st.floats(min_value=SOON_S, max_value=LATE_S))
def test_in_between_it_is_a_share_that_grows_with_the_lag(lag_s: float) -> None:
    draws = [number / 1000 for number in range(1000)]
    share = sum(refused(lag_s, draw) for draw in draws) / len(draws)
    assert abs(share - (lag_s - SOON_S) / (LATE_S - SOON_S)) < 0.002
