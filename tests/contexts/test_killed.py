"""A command that fails because a process of Spark was killed says why first, whichever node knows it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime.node.contexts import results
from brickyard.runtime.node.host.killed import CLOCKS_S, KilledProcesses
from tests.support.patience import PATIENCE_S

WHY = "the node ran out of memory"
CRASHED = (
    "An error occurred while calling o44.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Lost task 0.3 in stage 2.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n"
)
EXITED = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Command exited with code 137"


def failed(message: str) -> results.Collector:
    collector = results.Collector()
    collector.take("error", {"ename": "Py4JJavaError", "evalue": message, "traceback": ["frames", message]})
    return collector


@pytest.mark.parametrize("message", [CRASHED, EXITED, EXITED.replace("137", "52"), CRASHED + "x" * (2 * results.CAUSE_LIMIT)])
def test_the_reason_is_in_what_is_kept_of_an_error(message: str) -> None:
    collector = failed(message)
    assert collector.names_a_kill
    collector.explain(WHY)
    shown: dict[str, Any] = collector.results()
    assert shown["summary"].startswith(f"<span class='ansired'>Py4JJavaError</span>: {WHY}\n")
    assert shown["cause"].startswith(WHY)


def test_an_unknown_reason_changes_nothing() -> None:
    collector, before = failed(CRASHED), failed(CRASHED).results()
    collector.explain("")
    assert collector.results() == before


@pytest.mark.parametrize("message", ["division by zero", "Command exited with code 1", "the node used 1.2 GiB of disk"])
def test_other_errors_do_not_wait_for_a_reason(message: str) -> None:
    assert not failed(message).names_a_kill
    assert not results.Collector().names_a_kill


def test_the_newest_reason_of_any_node_is_found(tmp_path: Path) -> None:
    driver, worker = KilledProcesses(tmp_path), KilledProcesses(tmp_path)
    began_s = time.time()
    worker.note("10.0.0.2", "long ago")
    os.utime(next(tmp_path.glob("*/10.0.0.2")), (began_s - 2 * CLOCKS_S,) * 2)
    assert driver.since(began_s, patience_s=0) == ""
    later = threading.Timer(0.2, worker.note, ("10.0.0.3", WHY))
    later.start()
    assert driver.since(began_s, patience_s=PATIENCE_S) == f"{WHY} (node 10.0.0.3)"
    later.join()


def test_a_program_s_own_notes_hold_nobody_up(tmp_path: Path) -> None:
    notes = KilledProcesses(tmp_path)
    notes.note("10.0.0.2", "x" * 100_000)
    assert len(notes.since(time.time(), patience_s=0)) < 3_000
    (tmp_path / "secret").write_text("secret")
    for name in ("10.0.0.3", "10.0.0.4"):
        next(tmp_path.glob("*/10.0.0.2")).with_name(name).unlink(missing_ok=True)
    next(tmp_path.glob("*/10.0.0.2")).with_name("10.0.0.3").symlink_to(tmp_path / "secret")
    assert "secret" not in notes.since(time.time(), patience_s=0)
    os.mkfifo(next(tmp_path.glob("*/10.0.0.2")).with_name("10.0.0.4"))
    notes.since(time.time(), patience_s=0)
