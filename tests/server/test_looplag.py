"""The event loop's lag, by a clock that the test sets; and once by a loop that is held up."""

from __future__ import annotations

import asyncio
import time

from brickyard.server import looplag
from brickyard.server.looplag import AS_OF_S, KEPT, LargestLag, LoopLag


class Watch:
    """LoopLag with a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.lag = LoopLag(monotonic=lambda: self.now_s)

    def look(self, *, late_s: float) -> None:
        self.lag.expect(0.2)
        self.now_s += 0.2 + late_s
        self.lag.came()


def test_it_is_how_late_what_was_due_came() -> None:
    watch = Watch()
    assert watch.lag.lag_s == 0.0
    watch.look(late_s=0.0)
    assert watch.lag.lag_s < 0.001
    watch.look(late_s=2.0)
    assert abs(watch.lag.lag_s - 2.0) < 0.001


def test_the_worst_look_of_the_last_ones_counts() -> None:
    watch = Watch()
    watch.look(late_s=3.0)
    for _ in range(KEPT - 1):
        watch.look(late_s=0.1)
        assert abs(watch.lag.lag_s - 3.0) < 0.001
    watch.look(late_s=0.1)
    assert abs(watch.lag.lag_s - 0.1) < 0.001


def test_what_is_due_and_has_not_come_counts_already() -> None:
    watch = Watch()
    watch.lag.expect(0.2)
    assert watch.lag.lag_s == 0.0
    watch.now_s += 1.2
    assert abs(watch.lag.lag_s - 1.0) < 0.001
    watch.now_s += 1.0
    assert abs(watch.lag.lag_s - 2.0) < 0.001


async def test_a_loop_that_is_held_up_is_seen() -> None:
    lag = LoopLag()
    watching = asyncio.create_task(lag.run())
    await asyncio.sleep(0)
    time.sleep(looplag.EVERY_S + 0.3)
    assert lag.lag_s > 0.2
    watching.cancel()


def test_the_largest_lag_is_as_of_a_moment_ago() -> None:
    clock, lags = Watch(), [0.1, 3.0]
    largest = LargestLag([lambda: lags[0], lambda: lags[1]], monotonic=lambda: clock.now_s)
    assert largest() == 3.0
    lags[0] = 5.0
    clock.now_s += AS_OF_S / 2
    assert largest() == 3.0
    clock.now_s += AS_OF_S
    assert largest() == 5.0
