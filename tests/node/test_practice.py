"""What a warm JVM practises: nothing of it is left, and a cluster that comes waits only for the statement that runs."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from brickyard.runtime.node.spark import pauses
from tests.node.test_roles import Py4JError, Py4JJavaError, Py4JNetworkError
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until


@pytest.fixture
def practice(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with a stand-in for py4j, which is in runtimes only."""
    errors, classes = ModuleType("py4j.protocol"), ModuleType("py4j.java_gateway")
    classes.JavaClass = object  # type: ignore[attr-defined] # it is made up
    for error in (Py4JError, Py4JJavaError, Py4JNetworkError):
        setattr(errors, error.__name__, error)
    for name, module in (("py4j", ModuleType("py4j")), ("py4j.protocol", errors), ("py4j.java_gateway", classes)):
        monkeypatch.setitem(sys.modules, name, module)
    return importlib.import_module("brickyard.runtime.node.spark.practice")


class Driver:
    """A driver whose statements end when the test says so, or when its jobs are cancelled."""

    made: list[Driver]

    def __init__(self, _scala: Any, *, conf: dict[str, str]) -> None:
        self.conf = conf
        self.began, self.cancelled, self.stopped = threading.Event(), threading.Event(), False
        type(self).made.append(self)

    def statement(self) -> None:
        self.began.set()
        assert self.cancelled.wait(PATIENCE_S)
        raise Py4JJavaError("Job 1 was cancelled")

    def cancel_all(self) -> None:
        self.cancelled.set()

    def stop(self) -> None:
        self.stopped = True


class Made:
    """A practice of these pieces, and what it said."""

    def __init__(
        self, module: Any, node_dir: Path, pieces: Callable[[Driver], list[Callable[[], Any]]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Driver.made = []
        monkeypatch.setattr(module, "Driver", Driver)
        monkeypatch.setattr(pauses, "LOOK_S", 0.001)
        self.looks: list[int] = []
        self.busy = threading.Event()

        class Short(module.Practice):  # type: ignore[misc] # the module is loaded at run time
            def _pieces(self, driver: Driver) -> Iterator[Callable[[], Any]]:
                yield from pieces(driver)

        self.events = node_dir / "logs" / "eventlog"
        self.events.mkdir(parents=True)
        (self.events / "local-1.zstd").write_bytes(b"a run of nobody")
        self.said: list[str] = []
        conf = {"spark.authenticate": "true", "spark.a": "b"}
        self.practice = Short(
            MagicMock(), conf, manifest={}, node_dir=node_dir, connects=False, log=self,
            pauses=pauses.Pauses(self.look),
        )  # fmt: skip

    def log(self, line: str) -> None:
        self.said.append(line)

    def look(self) -> list[int]:
        """Ticks of a machine that computes for others all the time, or half of it."""
        self.looks.append(1)
        ticks = len(self.looks)
        return [ticks, 0, 0, 0 if self.busy.is_set() else ticks, 0, 0, 0, 0]


def test_it_goes_on_after_what_fails_and_leaves_nothing(
    practice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    done = []

    why = "this version has no such method"

    def fails() -> None:
        raise Py4JError(f"{why}\nat line 1")

    made = Made(practice, tmp_path, lambda _: [fails, lambda: done.append(1)], monkeypatch)
    made.practice.run()
    assert done == [1]
    failed, over = made.said
    golden(failed, why)
    golden(over)
    (driver,) = Driver.made
    assert driver.stopped
    assert driver.conf == {"spark.authenticate": "false", "spark.a": "b"}, "a secret of the JVM's would outlive it"
    assert list(made.events.iterdir()) == []
    made.practice.cut()  # a cluster comes later


def test_a_cluster_that_comes_cuts_it_off(
    practice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    later = []
    made = Made(practice, tmp_path, lambda driver: [driver.statement, lambda: later.append(1)], monkeypatch)
    runs = threading.Thread(target=made.practice.run)
    runs.start()
    until(lambda: Driver.made and Driver.made[0].began.is_set())
    made.practice.cut()
    assert Driver.made[0].stopped, "before the cluster has the JVM"
    assert later == []
    assert list(made.events.iterdir()) == []
    (cut,) = made.said
    golden(cut)
    runs.join()


def test_a_statement_that_is_still_planned_is_cut_off_once_it_runs(
    practice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(driver: Driver) -> None:
        driver.began.set()
        assert driver.cancelled.wait(PATIENCE_S)  # nothing runs that could be cancelled
        driver.cancelled.clear()
        driver.statement()

    made = Made(practice, tmp_path, lambda driver: [partial(planned, driver)], monkeypatch)
    runs = threading.Thread(target=made.practice.run)
    runs.start()
    until(lambda: Driver.made and Driver.made[0].began.is_set())
    made.practice.cut()
    assert Driver.made[0].stopped
    runs.join()


def test_what_leads_to_the_next_piece_is_not_done_for_nobody() -> None:
    cut, done = threading.Event(), []

    def pieces() -> Iterator[Callable[[], Any]]:
        yield lambda: done.append("first")
        done.append("a session for the second")
        yield lambda: done.append("second")

    for piece in pauses.Pauses(list).between(pieces(), cut):
        piece()
        cut.set()
    assert done == ["first"]

    def cut_meanwhile() -> Iterator[Callable[[], Any]]:
        cut.set()
        yield lambda: done.append("too late")

    cut.clear()
    assert list(pauses.Pauses(list).between(cut_meanwhile(), cut)) == []


def test_a_cluster_may_come_before_it_begins(practice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(practice, tmp_path, lambda _: [], monkeypatch)
    cutter = threading.Thread(target=made.practice.cut)
    cutter.start()
    until(made.practice._cut.is_set)
    made.practice.run()
    cutter.join()
    assert Driver.made == []


def test_it_gives_way_while_others_need_the_processors(
    practice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "GIVE_WAY_S", PATIENCE_S)
    done = threading.Event()
    made = Made(practice, tmp_path, lambda _: [done.set], monkeypatch)
    made.busy.set()
    runs = threading.Thread(target=made.practice.run)
    runs.start()
    until(lambda: len(made.looks) > 3)
    assert not done.is_set()
    made.busy.clear()
    runs.join()
    assert done.is_set()


def test_it_does_not_give_way_for_ever(practice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "GIVE_WAY_S", 0.01)
    done = threading.Event()
    made = Made(practice, tmp_path, lambda _: [done.set], monkeypatch)
    made.busy.set()
    made.practice.run()
    assert done.is_set()


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ([10, 0, 10, 100, 0, 0, 0, 0], [30, 5, 15, 160, 10, 0, 0, 0], 0.3),
        ([10, 0, 10, 100, 0, 0, 0, 0], [20, 0, 10, 100, 0, 0, 0, 10], 1.0),
        ([10, 0, 10, 100, 0, 0, 0, 0], [10, 0, 10, 100, 0, 0, 0, 0], 0.0),
        ([], [], 0.0),
    ],
)
def test_what_is_used_of_the_processors(before: list[int], after: list[int], share: float) -> None:
    assert pauses.used_share(before, after) == pytest.approx(share)
