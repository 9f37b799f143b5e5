"""When an executor that leaves is let go."""

from __future__ import annotations

from typing import Any

import pytest

from brickyard.runtime.node.spark import leaving
from tests.support.golden import Golden

Held = leaving.Held
STILL_S = leaving.STILL_S


class Driver:
    """Executors that leave, as a driver would tell."""

    migration_round_s = 2.0

    def __init__(self) -> None:
        self.now = 0.0
        self.held: dict[str, Any] = {}
        self.uploading: set[str] = set()
        self.gone: dict[str, float] = {}
        self.told: list[str] = []

    def leaving(self) -> dict[str, Any]:
        return {name: held for name, held in self.held.items() if name not in self.gone}

    def uploads(self, executor: str) -> bool:
        return executor in self.uploading

    def log(self, line: str) -> None:
        self.told.append(line)

    def let_go(self, executor: str) -> None:
        self.gone[executor] = self.now

    def leavers(self) -> Any:
        return leaving.Leavers(self, self, clock=lambda: self.now)

    def pass_time(self, leavers: Any, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            leavers.look()


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_one_on_which_nothing_moves_is_let_go(driver: Driver, golden: Golden) -> None:
    leavers = driver.leavers()
    driver.held = {"1": Held(busy=False, cached=4, outputs=0)}
    driver.pass_time(leavers, STILL_S)
    assert not driver.gone
    driver.pass_time(leavers, 2.0)
    assert driver.gone == {"1": STILL_S + 1.0}
    golden(driver.told[0])


@pytest.mark.parametrize("what", ["cached", "outputs"])
def test_one_whose_blocks_move_is_not(driver: Driver, what: str) -> None:
    leavers = driver.leavers()
    for left in range(40, 0, -1):
        driver.held = {"1": Held(busy=False, **{"cached": 7, "outputs": 7, what: left})}
        driver.pass_time(leavers, STILL_S - 1.0)
    assert not driver.gone
    driver.pass_time(leavers, STILL_S + 1.0)
    assert list(driver.gone) == ["1"]


def test_tasks_have_the_time_that_they_need_and_what_they_leave_has_its_own(driver: Driver) -> None:
    leavers = driver.leavers()
    driver.held = {"1": Held(busy=True, cached=1, outputs=1)}
    driver.pass_time(leavers, 500.0)
    driver.held = {"1": Held(busy=False, cached=1, outputs=1)}
    driver.pass_time(leavers, STILL_S)
    assert not driver.gone
    driver.pass_time(leavers, 1.0)
    assert list(driver.gone) == ["1"]


def test_a_large_shuffle_file_on_its_way_is_waited_for(driver: Driver) -> None:
    leavers = driver.leavers()
    driver.held, driver.uploading = {"1": Held(busy=False, cached=0, outputs=1)}, {"1"}
    driver.pass_time(leavers, 10 * STILL_S)
    assert not driver.gone
    driver.uploading = set()
    driver.pass_time(leavers, STILL_S + 1.0)
    assert list(driver.gone) == ["1"]


def test_each_is_judged_alone(driver: Driver) -> None:
    leavers = driver.leavers()
    for left in range(40, 0, -1):
        driver.held = {"1": Held(busy=False, cached=2, outputs=0), "2": Held(busy=False, cached=0, outputs=left)}
        driver.pass_time(leavers, 1.0)
    assert list(driver.gone) == ["1"]


def test_rounds_that_the_user_made_rare_are_waited_for(driver: Driver) -> None:
    driver.migration_round_s = 60.0
    leavers = driver.leavers()
    driver.held = {"1": Held(busy=False, cached=0, outputs=3)}
    driver.pass_time(leavers, 60.0)
    assert not driver.gone, "Spark looks for what its last tasks wrote only now"
    driver.pass_time(leavers, 10.0)
    assert list(driver.gone) == ["1"]
