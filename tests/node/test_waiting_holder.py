"""The holder of a waiting JVM and the launcher that stands in for Java, with a program in the place of the JVM."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from brickyard.runtime import NODE_CODE
from brickyard.runtime.node.waiting.command import EXECUTOR
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until

# Plays the JVM: a rehearsal, then an order, whose first argument says what to do. Java itself, without a rehearsal, says so.
JAVA = r"""
import json, os, signal, struct, sys, time
orders = sys.stdin.buffer
def texts():
    (count,) = struct.unpack(">i", orders.read(4))
    return [orders.read(struct.unpack(">i", orders.read(4))[0]).decode() for _ in range(count)]
if "brickyard.WaitingExecutor" not in sys.argv:
    print("java itself", os.environ["JAVA_HOME"], flush=True)
    sys.exit(3)
if "-Dbroken" in sys.argv:
    sys.exit("it is broken")
rehearsal = [texts() for _ in range(4)]
go = [each[5:] for each in sys.argv if each.startswith("-Dgo=")]
while go and not os.path.exists(go[0]):
    time.sleep(0.01)
print("noise of the rehearsal", flush=True)
print("noise of the rehearsal", file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("brickyard: the executor waits", flush=True)
(directory,), arguments, variables, settings = [texts() for _ in range(4)]
print(json.dumps({"cwd": os.getcwd(), "directory": directory, "arguments": arguments, "variables": variables,
                  "settings": settings, "own": dict(os.environ), "pid": os.getpid()}), flush=True)
print("an error", file=sys.stderr, flush=True)
if arguments[0] == "exit":
    print("x" * 300000, flush=True)
    sys.exit(int(arguments[1]))
def powered(*_):
    os.write(1, b"powered\n")  # it may come while "ready" is being printed
    sys.exit(7)
signal.signal(signal.SIGPWR, powered)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


class Room:
    """A holder, and the launcher that leads to it."""

    def __init__(self, root: Path) -> None:
        self.home, self.directory = root / "java", root / "waiting" / ("long" * 40)
        self.directory.mkdir(parents=True)
        program = self.home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!{sys.executable}\n{JAVA}")
        program.chmod(stat.S_IRWXU)
        self.launcher = self.directory / "java" / "bin" / "java"
        self.launcher.parent.mkdir(parents=True)
        self.launcher.write_text(f"#!{sys.executable} -IS\n{(NODE_CODE / 'waiting' / 'launcher.py').read_text()}")
        self.launcher.chmod(stat.S_IRWXU)
        (self.directory / "home").symlink_to(self.home)
        argv = [sys.executable, str(NODE_CODE / "start.py"), "hold-executor", str(self.directory)]
        self.holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.started: list[subprocess.Popen[bytes]] = []
        assert self.heard() == {"event": "open"}

    def heard(self) -> dict[str, Any]:
        """What the holder tells next."""
        assert self.holder.stdout is not None
        told: dict[str, Any] = json.loads(self.holder.stdout.readline())
        return told

    def launch(self, cwd: Path, *arguments: str, options: tuple[str, ...] = (), **env: str) -> subprocess.Popen[bytes]:
        """Does what Spark's worker does."""
        cwd.mkdir(parents=True, exist_ok=True)
        argv = [str(self.launcher), "-cp", "classes", "-Xmx1M", "-Dspark.driver.port=1", *options, EXECUTOR, *arguments]
        variables = {"PATH": os.environ["PATH"], "_SPARK_AUTH_SECRET": "secret", **env}
        process = subprocess.Popen(argv, cwd=cwd, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def rehearse(self, cwd: Path) -> int:
        """The pid of what waits now."""
        launcher = self.launch(cwd, "exit", "9")
        assert self.heard()["event"] == "rehearses"
        said = self.heard()
        assert said["event"] == "waits", said
        assert launcher.communicate(timeout=PATIENCE_S) == (b"", b""), "the rehearsal's output is nobody's"
        assert launcher.returncode == 0, "its order is not followed: it only rehearses"
        return int(said["pid"])

    def close(self) -> None:
        for process in (self.holder, *self.started):
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.close()


def lines(process: subprocess.Popen[bytes], last: bytes) -> list[bytes]:
    """What it prints up to a line."""
    assert process.stdout is not None
    found: list[bytes] = []
    while not found or found[-1] != last:
        line = process.stdout.readline()
        assert line, found
        found.append(line.rstrip())
    return found


def test_a_command_is_handed_over_as_if_it_had_been_launched(room: Room, tmp_path: Path) -> None:
    waiting = room.rehearse(tmp_path / "first")
    work = tmp_path / "executors" / "1"
    launcher = room.launch(work, "exit", "5", SPARK_EXECUTOR_DIRS="/mine", _SPARK_AUTH_SECRET="another")
    out, err = launcher.communicate(timeout=PATIENCE_S)
    assert launcher.returncode == 5
    first, second = out.splitlines()
    assert len(second) == 300000, "all output has come when it ends"
    assert err == b"an error\n"
    seen = json.loads(first)
    assert (seen["pid"], seen["cwd"], seen["directory"]) == (waiting, str(work), str(work))
    assert seen["arguments"] == ["exit", "5"]
    assert seen["settings"] == ["spark.driver.port=1"]
    assert {"_SPARK_AUTH_SECRET=another", "SPARK_EXECUTOR_DIRS=/mine", f"JAVA_HOME={room.home}"} <= set(seen["variables"])
    assert "_SPARK_AUTH_SECRET" not in seen["own"], "no secret is in the process's own environment"
    assert [room.heard()["event"] for _ in range(2)] == ["taken", "ended"]
    assert not psutil.pid_exists(waiting)


def test_signals_go_through_the_launcher(room: Room, tmp_path: Path) -> None:
    room.rehearse(tmp_path / "first")
    launcher = room.launch(tmp_path / "second", "stay")
    lines(launcher, b"ready")
    launcher.send_signal(signal.SIGPWR)
    out, _ = launcher.communicate(timeout=PATIENCE_S)
    assert (out, launcher.returncode) == (b"powered\n", 7)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, 137), (signal.SIGABRT, 134), (signal.SIGTERM, 143)])
def test_a_jvm_that_is_killed_ends_its_launcher(room: Room, tmp_path: Path, number: int, code: int) -> None:
    waiting = room.rehearse(tmp_path / "first")
    launcher = room.launch(tmp_path / "second", "stay")
    lines(launcher, b"ready")
    os.kill(waiting, number)
    assert launcher.wait(PATIENCE_S) == code


def test_a_jvm_that_ends_before_its_launcher_has_read_the_answer_is_not_started_twice(room: Room, tmp_path: Path) -> None:
    room.holder.kill()
    room.holder.wait()
    (room.directory / "socket").unlink()
    place = os.open(room.directory, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{place}/socket")
        os.close(place)
        listener.listen()
        listener.settimeout(PATIENCE_S)
        launcher = room.launch(tmp_path / "first", "stay")
        link, _ = listener.accept()
        with link:
            link.sendall(b"taken\n134\n")
            link.shutdown(socket.SHUT_WR)
            assert launcher.wait(PATIENCE_S) == 134
    assert launcher.communicate() == (b"", b"")


def test_the_jvm_dies_with_its_launcher(room: Room, tmp_path: Path) -> None:
    waiting = psutil.Process(room.rehearse(tmp_path / "first"))
    launcher = room.launch(tmp_path / "second", "stay")
    lines(launcher, b"ready")
    launcher.kill()
    psutil.wait_procs([waiting], timeout=PATIENCE_S)
    assert not waiting.is_running()
    assert room.holder.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("taken", [False, True])
def test_the_jvm_and_its_launcher_die_with_the_holder(room: Room, tmp_path: Path, taken: bool) -> None:
    waiting = psutil.Process(room.rehearse(tmp_path / "first"))
    if taken:
        launcher = room.launch(tmp_path / "second", "stay")
        lines(launcher, b"ready")
    room.holder.kill()
    until(lambda: not waiting.is_running() or waiting.status() == psutil.STATUS_ZOMBIE, "it outlives its holder")
    if taken:
        assert launcher.wait(PATIENCE_S) == 137


@pytest.mark.parametrize("taken", [False, True])
def test_all_end_with_the_node_host(room: Room, tmp_path: Path, taken: bool) -> None:
    waiting = psutil.Process(room.rehearse(tmp_path / "first"))
    if taken:
        lines(room.launch(tmp_path / "second", "stay"), b"ready")
    assert room.holder.stdin is not None
    room.holder.stdin.close()
    assert room.holder.wait(PATIENCE_S) == 0
    assert not waiting.is_running()


def test_what_does_not_fit_becomes_java_and_says_why(room: Room, tmp_path: Path, golden: Golden) -> None:
    waiting = room.rehearse(tmp_path / "first")
    launcher = room.launch(tmp_path / "second", "exit", "5", options=("-Xmx2M",))
    out, err = launcher.communicate(timeout=PATIENCE_S)
    assert (out, launcher.returncode) == (f"java itself {room.home}\n".encode(), 3)
    heard = room.heard()
    assert heard["event"] == "cold"
    golden(heard["reason"], "spark.executor.memory", "2M", "1M")
    golden(err.decode(), heard["reason"])
    assert not psutil.pid_exists(waiting), "what it waited for has come"


def test_a_jvm_is_handed_over_once(room: Room, tmp_path: Path) -> None:
    room.rehearse(tmp_path / "first")
    lines(room.launch(tmp_path / "second", "stay"), b"ready")
    out, err = room.launch(tmp_path / "third", "stay").communicate(timeout=PATIENCE_S)
    assert (out, err) == (f"java itself {room.home}\n".encode(), b"")


def test_a_rehearsal_that_fails_is_told(room: Room, tmp_path: Path, golden: Golden) -> None:
    launcher = room.launch(tmp_path / "first", "exit", "0", options=("-Dbroken",))
    assert room.heard()["event"] == "rehearses"
    heard = room.heard()
    assert heard["event"] == "failed"
    golden(heard["reason"], "code 1", "it is broken")
    assert launcher.wait(PATIENCE_S) == 137
    assert room.launch(tmp_path / "second", "x").wait(PATIENCE_S) == 3, "then Java starts as always"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_jvm_does_not_hear_that_its_rehearsal_shall_end(room: Room, tmp_path: Path, number: int) -> None:
    """Spark's worker ends the rehearsal's executor when the driver has gone."""
    launcher = room.launch(tmp_path / "first", "stay", options=(f"-Dgo={tmp_path / 'go'}",))
    assert room.heard()["event"] == "rehearses"
    launcher.send_signal(number)
    if number == signal.SIGKILL:
        launcher.wait(PATIENCE_S)
    (tmp_path / "go").touch()
    assert room.heard()["event"] == "waits"
    assert launcher.wait(PATIENCE_S) in (0, -signal.SIGKILL)


def test_a_command_that_comes_as_the_rehearsal_ends_waits_for_the_jvm(room: Room, tmp_path: Path) -> None:
    go = f"-Dgo={tmp_path / 'go'}"
    room.launch(tmp_path / "first", "stay", options=(go,))
    pid = room.heard()["pid"]
    launcher = room.launch(tmp_path / "second", "stay", options=(go,))
    (tmp_path / "go").touch()
    assert json.loads(lines(launcher, b"ready")[0])["pid"] == pid


def test_nonsense_does_no_harm(room: Room, tmp_path: Path) -> None:
    """Any program of the node can speak to the holder."""
    place = os.open(room.directory, os.O_PATH)
    for text in (b"", b"\xff\xff\xff\xff" + b"x" * 64, b"\0\0\0\4a\0b\0"):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(f"/proc/self/fd/{place}/socket")
            link.sendall(text)
    os.close(place)
    room.rehearse(tmp_path / "first")
