"""A clock that is set does not take the workspace with it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.clock import Ids, SystemClock, WallClock

HOUR = 3_600_000


TENTH = 10


class Machine:
    """Milliseconds on the wall, and since the machine was started."""

    def __init__(self) -> None:
        self.wall, self.up = 1_790_000_000_000, 0

    def clock(self) -> SystemClock:
        return SystemClock(wall_ns=lambda: self.wall * 1_000_000, monotonic_ns=lambda: self.up * 1_000_000)

    def wall_clock(self) -> WallClock:
        return WallClock(wall_ns=lambda: self.wall * 1_000_000, monotonic_ns=lambda: self.up * 1_000_000)

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.up += ms


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_does_not_jump_and_is_right_again_in_the_end(jump: int) -> None:
    machine = Machine()
    clock = machine.clock()
    started = clock.now_ms()
    machine.wall += jump
    assert clock.now_ms() == started
    machine.passes(HOUR)
    assert clock.now_ms() == started + HOUR + jump // TENTH
    machine.passes(TENTH * HOUR)
    assert clock.now_ms() == machine.wall
    machine.passes(HOUR)
    assert clock.now_ms() == machine.wall


@given(st.lists(st.tuples(st.integers(-HOUR, HOUR), st.integers(0, HOUR))))
def test_ages_are_right_to_a_tenth_whatever_is_done_to_the_clock(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    seen = [(machine.up, clock.now_ms())]
    for step, passed in steps:
        machine.wall += step
        machine.passes(passed)
        now = clock.now_ms()
        for up, then in seen:
            assert abs((now - then) - (machine.up - up)) <= (machine.up - up) / TENTH + 1
        seen.append((machine.up, now))


def test_the_clock_on_the_wall_is_followed_forward_at_once_and_never_goes_back() -> None:
    machine = Machine()
    clock = machine.wall_clock()
    machine.wall += HOUR
    assert clock.now_ms() == machine.wall
    started = clock.now_ms()
    machine.wall -= HOUR
    assert clock.now_ms() == started
    machine.passes(HOUR)
    assert clock.now_ms() == started + HOUR // 2
    machine.passes(HOUR)
    assert clock.now_ms() == started + HOUR == machine.wall


@given(st.lists(st.tuples(st.integers(-HOUR, HOUR), st.integers(0, HOUR))))
def test_time_on_the_wall_goes_on_whatever_is_done_to_the_clock(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.wall_clock()
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
