"""A clock that is set back does not take the workspace back with it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.clock import Ids, SystemClock

HOUR = 3_600_000


class Machine:
    """Milliseconds on the wall, and since the machine was started."""

    def __init__(self) -> None:
        self.wall, self.up = 1_790_000_000_000, 0

    def clock(self) -> SystemClock:
        return SystemClock(wall_ns=lambda: self.wall * 1_000_000, monotonic_ns=lambda: self.up * 1_000_000)

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.up += ms


def test_a_clock_that_is_set_back_goes_slower_until_it_is_right_again() -> None:
    machine = Machine()
    clock = machine.clock()
    started = clock.now_ms()
    machine.wall -= HOUR
    assert clock.now_ms() == started
    machine.passes(HOUR)
    assert clock.now_ms() == started + HOUR // 2
    machine.passes(HOUR)
    assert clock.now_ms() == started + HOUR == machine.wall
    machine.passes(HOUR)
    assert clock.now_ms() == machine.wall


def test_a_clock_that_is_set_forward_is_followed() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += HOUR
    assert clock.now_ms() == machine.wall


@given(st.lists(st.tuples(st.integers(-HOUR, HOUR), st.integers(0, HOUR))))
def test_time_goes_on_whatever_is_done_to_the_clock(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    for step, passed in steps:
        before = clock.now_ms()
        machine.wall += step
        machine.passes(passed)
        now = clock.now_ms()
        assert now >= machine.wall
        assert now - before >= passed // 2 - 1


def test_ids_of_clusters_grow_with_the_milliseconds() -> None:
    ids = Ids()
    made = [ids.cluster_id(1_700_000_000_000 + ms) for ms in range(0, 3_000, 7)]
    assert made == sorted(made)
    assert all(re.fullmatch(r"\d{4}-\d{6}-[0-9a-z]{8}", each) for each in made)
    assert len({ids.cluster_id(1_700_000_000_000) for _ in range(1_000)}) == 1_000
