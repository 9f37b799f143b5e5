"""Trainings: when they may run, and that a killed one leaves nothing that counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.cli import CliError
from brickyard.cli import runtime as runtime_command
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.features.runtimes.loop import Trainings
from brickyard.runtime import installer, packages, training
from brickyard.runtime.background import Background, Interrupted
from brickyard.runtime.catalogue import rows
from brickyard.runtime.classes import classes_of
from brickyard.runtime.idleness import NEEDED_MB, PATIENCE_S, QUIET_S, Action, Seen, Work, decide
from brickyard.runtime.installed import installed, write_manifest
from brickyard.runtime.lock import at_work
from brickyard.runtime.starting import Starting, anything_starts
from brickyard.runtime.training import NothingToTrain, TrainingFailed, is_trained, last_failure, train
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S as LONG_S
from tests.support.patience import until

QUIET = Seen(starting=False, others=0.0, cores=2, free_mb=8_000)
START = Seen(starting=True, others=0.0, cores=2, free_mb=8_000)
BUSY = Seen(starting=False, others=1.5, cores=2, free_mb=8_000)
SMALL = Seen(starting=False, others=0.0, cores=2, free_mb=100)


def actions(seen: list[tuple[float, Seen]]) -> list[Action]:
    """What is done at each of these moments."""
    work, found = Work(), []
    for now_s, each in seen:
        action, work = decide(work, each, now_s=now_s)
        found.append(action)
    return found


def test_it_begins_after_a_quiet_time() -> None:
    assert actions([(1, BUSY), (2, QUIET), (1 + QUIET_S, QUIET)]) == [Action.WAIT, Action.WAIT, Action.RUN]
    assert actions([(100, Seen(starting=False, others=0, cores=2, free_mb=NEEDED_MB - 1))]) == [Action.WAIT]


@pytest.mark.parametrize("seen", [START, BUSY])
def test_it_stops_at_once_and_goes_on_after_a_quiet_time(seen: Seen) -> None:
    told = actions([(10, QUIET), (11, QUIET), (12, seen), (13, QUIET), (12 + QUIET_S, QUIET), (40, QUIET)])
    assert told == [Action.RUN, Action.RUN, Action.STOP, Action.STOP, Action.RUN, Action.RUN]


def test_it_ends_when_it_is_stopped_for_long_or_memory_is_short() -> None:
    assert actions([(10, QUIET), (20, BUSY), (20 + PATIENCE_S, BUSY), (21 + PATIENCE_S, BUSY)]) == [
        Action.RUN, Action.STOP, Action.END, Action.WAIT,
    ]  # fmt: skip
    assert actions([(10, QUIET), (11, SMALL), (12, SMALL)]) == [Action.RUN, Action.END, Action.WAIT]


@given(st.lists(st.tuples(st.floats(0.01, 40), st.sampled_from([QUIET, START, BUSY, SMALL])), max_size=60))
def test_it_never_runs_while_a_node_starts(steps: list[tuple[float, Seen]]) -> None:
    now_s, moments = 0.0, []
    for passed, seen in steps:
        moments.append((now_s := now_s + passed, seen))
    for (_, seen), action in zip(moments, actions(moments), strict=True):
        if seen.starting or seen is SMALL:
            assert action is not Action.RUN


def test_a_node_that_starts_is_seen_until_it_has_or_is_killed(tmp_path: Path) -> None:
    one, other = Starting(tmp_path), Starting(tmp_path)
    assert not anything_starts(tmp_path)
    one.show(True)
    other.show(True)
    one.show(False)
    assert anything_starts(tmp_path)
    other.show(False)
    assert not anything_starts(tmp_path)
    program = (
        "import pathlib\nfrom brickyard.runtime.starting import Starting\n"
        f"Starting(pathlib.Path({str(tmp_path)!r})).show(True)\nprint('in', flush=True)\ninput()"
    )
    agent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    agent.stdout.readline()
    assert anything_starts(tmp_path)
    agent.kill()
    agent.communicate()
    assert not anything_starts(tmp_path)


# ── a runtime whose trainer is a program of the test's ──────────────────────────────────────────────────────────────────────

TRAINS = """
import sys, pathlib
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
for name in ("node", "executor"):
    (out / f"{name}.jsa").write_text(name)
(out.parent / "rewritten.jar").write_text("plain")
"""
LASTS = """
import subprocess, sys, pathlib
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
(out / "node.jsa").write_text("half")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
(out.parent.parent.parent / "pids").write_text(f"{child.pid} 1")
child.wait()
"""
FAILS = """
print('{"error": "Java could not make node.jsa"}')
raise SystemExit(1)
"""


@pytest.fixture(autouse=True)
def without_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would come first."""
    monkeypatch.setattr("brickyard.runtime.layers.declared", dict)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Returns a cache directory with an installed runtime, whose training is the given program."""

    def make(program: str) -> Path:
        home = tmp_path / "runtimes" / "spark-4.0"
        (home / "site" / "pyspark").mkdir(parents=True)
        code = tmp_path / "code"
        code.mkdir()
        (code / "start.py").write_text(program)
        monkeypatch.setattr(training, "NODE_CODE", code)
        monkeypatch.setattr(packages, "DATA", tmp_path / "none")  # there is no second layer
        write_manifest(
            RuntimeManifest(
                environment="spark-4.0", spark_version="4.0.5", scala_version="2.13", home=str(home), python=sys.executable,
                python_version="3.11", python_base="", spark_home=str(home / "site" / "pyspark"), java_home="", java_real="",
                java_version="17", installed_ms=1,
            )
        )  # fmt: skip
        return tmp_path

    return make


def trained(cache_dir: Path) -> RuntimeManifest:
    return train("spark-4.0", "Spark 4.0.5", cache_dir=cache_dir, progress=lambda _: None)


def manifest(cache_dir: Path) -> RuntimeManifest:
    found = installed("spark-4.0", cache_dir)
    assert found is not None
    return found


def test_a_training_is_named_in_the_manifest_once_it_is_whole(cache: Callable[[str], Path]) -> None:
    place = cache(TRAINS)
    assert Trainings(cache_dir=place).next(), "the server finds it"
    made = trained(place)
    assert made == manifest(place)
    assert is_trained(made)
    assert Path(made.executor_archive).read_text() == "executor"
    assert sorted(path.name for path in Path(made.home).iterdir()) == ["archives", "rewritten.jar", "runtime.json", "site"]
    assert Path(made.rewritten).read_text() == "plain"
    assert not Trainings(cache_dir=place).next()


def test_the_command_has_an_exit_code_for_a_failed_training_alone(cache: Callable[[str], Path]) -> None:
    place = cache(FAILS)
    runtime = next(each for each in rows() if each.environment == "spark-4.0")
    with pytest.raises(CliError) as failed:
        runtime_command._train(runtime, place)
    assert failed.value.exit_code == runtime_command.UNTRAINED == 4
    installer.remove("spark-4.0", cache_dir=place)
    with pytest.raises(CliError) as missing:
        runtime_command._train(runtime, place)
    assert missing.value.exit_code == 1


def test_archives_of_a_user_without_a_name_fit_one_version_of_our_classes(
    cache: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a user's JVMs need our classes, and archives fit only the class path that they were made with."""
    monkeypatch.setattr(training, "is_nameless", lambda: True)
    compiled: list[str] = []

    def compile_classes(manifest: RuntimeManifest) -> RuntimeManifest:
        compiled.append(manifest.home)
        return msgspec.structs.replace(manifest, classes=classes_of(manifest.home))

    monkeypatch.setattr(training, "compile_classes", compile_classes)
    program = """
import json
given = json.loads(pathlib.Path(sys.argv[sys.argv.index("--manifest") + 1]).read_text())
assert given["login_classes"] and not given["classes"]
"""
    made = trained(cache(TRAINS + program))
    assert compiled == [made.home]
    assert made.trained_with == classes_of(made.home)
    assert is_trained(made)
    assert not is_trained(msgspec.structs.replace(made, trained_with=f"{made.home}/classes/older.jar"))


@pytest.mark.parametrize("lost", ["node_archive", "rewritten"])
def test_a_runtime_that_lost_a_file_is_trained_again(cache: Callable[[str], Path], lost: str) -> None:
    place = cache(TRAINS)
    path = Path(getattr(trained(place), lost))
    path.unlink()
    assert not is_trained(manifest(place))
    assert is_trained(trained(place))
    assert path.is_file()


def test_a_runtime_that_an_earlier_version_trained_stays_so(cache: Callable[[str], Path]) -> None:
    place = cache(TRAINS.replace('(out.parent / "rewritten.jar")', 'pathlib.Path("/dev/null")'))
    made = trained(place)
    assert made.rewritten == ""
    assert is_trained(made)


def test_a_failure_is_told_and_not_repeated_at_once(cache: Callable[[str], Path], golden: Golden) -> None:
    place = cache(FAILS)
    with golden.refused(TrainingFailed):
        trained(place)
    failure = last_failure("spark-4.0", place)
    assert failure is not None
    golden(failure.message, "node.jsa")
    assert not is_trained(manifest(place))
    assert not Trainings(cache_dir=place).next()


def begun(place: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A trainer in another process, and the process that its training has started."""
    program = (
        f"import pathlib\nfrom brickyard.runtime import training\ntraining.NODE_CODE = pathlib.Path({str(place / 'code')!r})\n"
        f"training.train('spark-4.0', 'Spark', cache_dir=pathlib.Path({str(place)!r}), progress=lambda _: None)\n"
    )
    trainer = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    pids = place / "pids"
    child = until(lambda: pids.read_text().split() if pids.exists() else [], "the training")
    return trainer, int(child[0])


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels end no child with its parent")
@pytest.mark.parametrize("stopped", [False, True])
def test_a_killed_training_leaves_nothing_and_is_begun_again(cache: Callable[[str], Path], stopped: bool) -> None:
    place = cache(LASTS)
    trainer, child = begun(place)
    assert at_work("spark-4.0", place)
    if stopped:
        os.kill(child, signal.SIGSTOP)
    trainer.kill()
    trainer.wait()
    until(lambda: not psutil.pid_exists(child), "the end of what it had started")
    assert not is_trained(manifest(place))
    assert not at_work("spark-4.0", place)
    (place / "code" / "start.py").write_text(TRAINS)
    assert Path(trained(place).node_archive).read_text() == "node", "nothing of the killed one is used"


@pytest.mark.skipif(sys.platform != "linux", reason="as above")
def test_removing_a_runtime_ends_its_training(cache: Callable[[str], Path]) -> None:
    place = cache(LASTS)
    trainer, child = begun(place)
    assert installer.remove("spark-4.0", cache_dir=place)
    trainer.wait(LONG_S)
    until(lambda: not psutil.pid_exists(child), "the end of what it had started")
    assert not (place / "runtimes" / "spark-4.0").exists()
    with pytest.raises(NothingToTrain):
        trained(place)


def test_a_runtime_installed_anew_meanwhile_does_not_get_the_archives(
    cache: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = cache(TRAINS)
    flush = training._flush

    def installs_anew(path: Path) -> None:
        flush(path)
        write_manifest(msgspec.structs.replace(manifest(place), installed_ms=2))

    monkeypatch.setattr(training, "_flush", installs_anew)
    with pytest.raises(NothingToTrain):
        trained(place)
    assert not is_trained(manifest(place))


@pytest.mark.skipif(sys.platform != "linux", reason="as above")
def test_what_is_stopped_goes_on_and_what_ends_is_interrupted(tmp_path: Path) -> None:
    seen = QUIET
    now = 0.0

    class Played:
        def see(self, mine: object) -> Seen:
            return seen

    watched = Background(tmp_path, lookout=Played(), clock=lambda: now)
    now = QUIET_S
    shell = subprocess.Popen(["sh", "-c", "sleep 1000; true"])
    try:
        (sleep,) = until(lambda: psutil.Process(shell.pid).children(), "the program")
        watched.wait()
        watched.look(shell.pid)
        seen = START
        watched.look(shell.pid)
        until(lambda: sleep.status() == psutil.STATUS_STOPPED, "the stop")
        seen, now = QUIET, now + QUIET_S
        watched.look(shell.pid)
        until(lambda: sleep.status() != psutil.STATUS_STOPPED, "its going on")
        seen = SMALL
        with pytest.raises(Interrupted):
            watched.look(shell.pid)
    finally:
        for each in psutil.Process(shell.pid).children():
            each.kill()
        shell.kill()
        shell.wait()


def test_a_trainer_that_only_waits_gives_way_to_one_that_does_not(cache: Callable[[str], Path]) -> None:
    place = cache(TRAINS)
    program = (
        "import pathlib\nfrom brickyard.runtime.lock import sole\n"
        f"with sole('spark-4.0', pathlib.Path({str(place)!r})):\n    print('in', flush=True)\n    input()"
    )
    waiting = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert waiting.stdout is not None
    waiting.stdout.readline()
    assert is_trained(trained(place))
    assert waiting.wait(LONG_S) == -signal.SIGTERM
    waiting.communicate()
