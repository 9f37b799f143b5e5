"""What a driver that has started cold does until somebody asks for something."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brickyard.runtime.node.spark import readiness
from brickyard.runtime.node.spark.pauses import Pauses
from brickyard.runtime.node.spark.readiness import DESCRIPTION, DYNAMIC, GROUP, MOST_TASKS, Readiness
from tests.support.patience import until


class FakeDriver:
    """Takes statements; `during` is called while one runs."""

    def __init__(self, *, slots: int = 3, during: Callable[[], None] = lambda: None, dynamic: bool = False) -> None:
        self._slots, self._during, self._settings = slots, during, {DYNAMIC: "true"} if dynamic else {}
        self.statements: list[str] = []
        self.groups: list[tuple[str, ...]] = []
        self.partitions = 0
        self.cancelled = threading.Event()

    def setting(self, key: str) -> str:
        return self._settings.get(key, "")

    def slots(self) -> int:
        return self._slots

    @contextlib.contextmanager
    def group(self, *names: str) -> Iterator[None]:
        self.groups.append(names)
        yield
        self.groups.append(())

    def queries(self, partitions: int) -> Callable[[str], int]:
        self.partitions = partitions
        return self._run

    def _run(self, statement: str) -> int:
        assert self.groups[-1] == (GROUP, DESCRIPTION)
        self.statements.append(statement)
        self._during()
        return 1

    def cancel_group(self, group: str) -> None:
        assert group == GROUP
        self.cancelled.set()


def readiness_of(driver: Any, *, unused: Callable[[], bool] = lambda: True, cut: threading.Event | None = None) -> Readiness:
    driver.unused = unused
    return Readiness(driver, driver, cut=cut or threading.Event(), pauses=Pauses(read=list))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PAUSE_S", 0.0)


def test_every_slot_has_a_task_and_none_waits() -> None:
    driver = FakeDriver(slots=3)
    assert readiness_of(driver).run() == 3
    assert driver.partitions == 3
    assert all(statement.count("1, 3)") >= 1 and "1, 2)" not in statement for statement in driver.statements)
    assert driver.groups == [(GROUP, DESCRIPTION), ()], "the thread's next jobs are in no group"


def test_a_user_who_wants_a_thousand_tasks_does_not_get_them_here() -> None:
    driver = FakeDriver(slots=1000)
    readiness_of(driver).run()
    assert driver.partitions == MOST_TASKS


def test_it_does_not_begin_where_somebody_was_first_or_where_tasks_ask_for_executors() -> None:
    for driver, unused in ((FakeDriver(), False), (FakeDriver(dynamic=True), True)):
        assert readiness_of(driver, unused=lambda unused=unused: unused).run() == 0  # type: ignore[misc]  # a default
        assert driver.statements == []


@pytest.mark.parametrize("end", ["used", "cut"])
def test_it_stops_after_the_query_that_runs(end: str) -> None:
    used, cut = threading.Event(), threading.Event()
    driver = FakeDriver(during=(used if end == "used" else cut).set)
    ready = readiness_of(driver, unused=lambda: not used.is_set(), cut=cut)
    assert ready.run() == 1


def test_a_query_that_finds_no_executor_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE_S", 1.0)
    driver = FakeDriver()
    driver._during = driver.cancelled.wait  # type: ignore[assignment]  # as a job without executors does
    assert readiness_of(driver).run() == 1


def test_a_failure_leaves_nothing_behind() -> None:
    def fail() -> None:
        raise OSError("the driver has ended")

    ready = readiness_of(FakeDriver(during=fail))
    with pytest.raises(OSError, match="has ended"):
        ready.run()
    until(lambda: not [each for each in threading.enumerate() if isinstance(each, threading.Timer)], "no timer is left")
