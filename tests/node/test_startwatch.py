"""A start whose executors do not come to work ends, with their own last lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brickyard.runtime.node.host import startwatch
from brickyard.runtime.node.host.startwatch import EndedExecutors, StartWatch


@pytest.mark.parametrize(
    ("ended", "workers", "fails"),
    [(0, 1, False), (3, 1, False), (4, 1, True), (9, 5, False), (10, 5, True), (4, 0, True)],
)
def test_executors_that_end_one_after_the_other_end_the_start(ended: int, workers: int, fails: bool) -> None:
    said = startwatch.reason(ended=ended, workers=workers, registered=workers, worker_s=1.0)
    assert bool(said) is fails
    assert not fails or str(ended) in said


def test_without_a_worker_a_start_waits_and_with_one_an_executor_has_to_come() -> None:
    now, workers, registered = 0.0, 0, 0

    class Cluster:
        def alive_workers(self) -> int:
            return workers

        def registered_executors(self) -> int:
            return registered

        def ended_executors(self) -> int:
            return 0

    watch = StartWatch(Cluster(), monotonic=lambda: now)
    assert not watch.look()
    now = 10 * startwatch.SILENT_S
    assert not watch.look(), "the provider may need long for a worker"
    workers = 1
    assert not watch.look()
    now += startwatch.SILENT_S + 1
    registered = 1
    assert not watch.look(), "it may still fetch what its first task needs"
    registered = 0
    assert watch.look()


def test_the_last_lines_of_the_executor_that_ended_last_are_told(tmp_path: Path) -> None:
    work, shared, log = tmp_path / "work", tmp_path / "shared", tmp_path / "driver.log"
    log.write_text("INFO Executor updated: app-1/0 is now EXITED (Command exited with code 1)\n")
    failure = startwatch.failure("they ended", startwatch.last_lines(shared), log)
    assert failure["message"] == "they ended: Command exited with code 1", "what is known without their lines"

    def ends(worker: str, number: int, text: str) -> None:
        directory = work / worker / "app-1" / str(number)
        directory.mkdir(parents=True)
        (directory / "stderr").write_text(text)

    first = EndedExecutors(work=work / "a", shared=shared, worker="127.0.0.1:1")
    second = EndedExecutors(work=work / "b", shared=shared, worker="127.0.0.1:2")
    ends("a", 9, "java.lang.IllegalStateException: the earlier one")
    ends("b", 10, "java.lang.IllegalStateException: no such service\n\tat x.Y.z(Y.java:1)\n")
    first.note([])
    assert not startwatch.last_lines(shared), "it may have just started"
    first.note([])
    second.note([("app-1", "10")])
    second.note([("app-1", "10")])
    assert "the earlier one" in startwatch.last_lines(shared)
    os.utime(shared / "ended-executors" / "127.0.0.1-1", ns=(1, 1))
    second.note([])
    second.note([])
    failure = startwatch.failure("they ended", startwatch.last_lines(shared), log)
    assert (failure["code"], failure["message"]) == ("SPARK_STARTUP_FAILURE", "they ended: no such service")
    assert "x.Y.z" in failure["log_tail"]


def test_a_worker_notes_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startwatch, "MOST_NOTED", 2)
    ended = EndedExecutors(work=tmp_path / "work", shared=tmp_path / "shared", worker="w")
    for number in range(4):
        (tmp_path / "work" / "app-1" / str(number)).mkdir(parents=True)
        (tmp_path / "work" / "app-1" / str(number) / "stderr").write_text(f"line {number}")
        ended.note([])
        ended.note([])
    assert startwatch.last_lines(tmp_path / "shared") == "line 1"
