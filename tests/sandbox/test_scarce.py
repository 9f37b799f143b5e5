"""What the kernel counts for a user or for the whole machine: a hostile program cannot use it up for others."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brickyard.sandbox import launcher
from brickyard.sandbox.ulimits import COUNTED_SINCE, FILES, UNLIMITED, share, version
from brickyard.sandbox.view import View
from tests.support.patience import PATIENCE_S

PROBE = launcher.probe()
WALLS = launcher.choose("auto", PROBE)
namespaces = pytest.mark.skipif(PROBE.kind != "namespaces", reason=f"no namespaces of our own here: {PROBE.reason}")
NUMBERS = {"x86_64": (206, 240, 317), "aarch64": (0, 180, 277)}  # io_setup, mq_open, seccomp

PROGRAM = """
import ctypes, fcntl, json, os, resource, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("more", ctypes.c_char * 48)]
def count(make, most):
    made = 0
    while made < most and make():
        made += 1
    return made
def timer(event=Event(None, 10, 0, b""), made=ctypes.c_void_p()):
    return libc.timer_create(0, ctypes.byref(event), ctypes.byref(made)) == 0
kept = []
def terminal():
    try:
        kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
def forks():
    made = 0
    try:
        while made < 500:
            if os.fork() == 0:
                signal.pause()
            made += 1
    except OSError:
        pass
    return made
def error(call, *arguments):
    ctypes.set_errno(0)
    try:
        return ctypes.get_errno() if call(*arguments) == -1 else 0
    except OSError as failed:
        return failed.errno
def lease(path):
    with open(path, "w") as file:
        return error(fcntl.fcntl, file.fileno(), fcntl.F_SETLEASE, fcntl.F_WRLCK)
def option(level, name):
    with socket.socket(socket.AF_INET6 if level == 41 else socket.AF_INET) as it:
        return error(it.setsockopt, level, name, 1 if level == 41 else bytes(16))
print(json.dumps(eval(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@contextmanager
def hostile(found: str, *, walls: launcher.Sandbox = WALLS, processes: int = 0) -> Iterator[Any]:
    """What an expression is worth inside. The program then keeps all that it has taken."""
    view = View(read_only=(sys.prefix, sys.base_prefix), interpreter=sys.executable, processes=processes)
    command = walls.command([sys.executable, "-c", PROGRAM, found], view=view)
    with subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


def machines_inotify() -> int:
    return int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())


@namespaces
def test_a_node_takes_a_share_and_leaves_the_rest_to_others() -> None:
    most = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
    timers = UNLIMITED if most == resource.RLIM_INFINITY else most
    taken = f"[count(lambda: libc.inotify_init() >= 0, {machines_inotify()}), count(timer, {timers}), count(terminal, 1000)]"
    with hostile(taken) as one, hostile(taken) as two:
        assert one[0] == two[0] == share(machines_inotify()) < machines_inotify() // 2
        if version() >= COUNTED_SINCE:
            assert one[1] == two[1] == share(timers)
        assert one[2] == two[2] == 128
        assert ctypes.CDLL(None).inotify_init() >= 0, "our own user's other programs"


def test_a_node_has_less_of_everything_than_its_agent() -> None:
    ours = {name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_NOFILE", "RLIMIT_SIGPENDING")}
    with hostile("[resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_SIGPENDING)]") as found:
        for mine, (soft, hard) in zip(ours.values(), found, strict=True):
            assert soft == hard
            assert hard < mine[1] or mine[1] == resource.RLIM_INFINITY or mine[1] <= FILES
    with hostile("[resource.getrlimit(resource.RLIMIT_MSGQUEUE), resource.getrlimit(resource.RLIMIT_CORE)]") as found:
        assert found == [[0, 0], [0, 0]]


@pytest.mark.parametrize("walls", [WALLS, launcher.Plain()], ids=["walls", "none"])
def test_what_belongs_to_the_machine_cannot_be_taken(walls: launcher.Sandbox, tmp_path: Path) -> None:
    if platform.machine() not in NUMBERS:
        pytest.skip("no list of system calls for this machine")
    setup, queue, filters = NUMBERS[platform.machine()]
    place = str(tmp_path / "leased") if walls.kind == "none" else "/tmp/leased"  # noqa: S108 - inside
    tries = {
        "asynchronous I/O": f"error(libc.syscall, {setup}, 1, ctypes.byref(ctypes.c_ulong()))",
        "message queues": f"error(libc.syscall, {queue}, b'x', os.O_CREAT | os.O_RDWR, 0o600, None)",
        "filters": f"error(libc.syscall, {filters}, 0, 0, None)",
        "filters by prctl": "error(libc.prctl, 22, 2, None, 0, 0)",
        "filters of sockets": "option(socket.SOL_SOCKET, 26)",
        "a lease": f"lease({place!r})",
    }
    with hostile(f"[{', '.join(tries.values())}, option(41, 26)]", walls=walls) as found:
        assert dict(zip(tries, found[:-1], strict=True)) == {
            "asynchronous I/O": errno.ENOSYS, "message queues": errno.ENOSYS, "filters": errno.ENOSYS,
            "filters by prctl": errno.EINVAL, "filters of sockets": errno.EPERM, "a lease": errno.EPERM,
        }  # fmt: skip
        assert found[-1] == 0, "IPV6_V6ONLY has the same number as a filter"


@pytest.mark.skipif(PROBE.kind == "none", reason=f"no isolation here: {PROBE.reason}")
def test_shared_memory_of_system_v_stays_inside() -> None:
    before = Path("/proc/sysvipc/shm").read_text()
    with hostile("count(lambda: libc.shmget(0, 4096, 0o600) >= 0, 100)") as made:
        assert made == 100
        assert Path("/proc/sysvipc/shm").read_text().count("\n") <= before.count("\n")


@namespaces
def test_processes_are_limited_without_control_groups_too() -> None:
    if version() < COUNTED_SINCE:
        pytest.skip("this kernel counts the processes of a user, not of a namespace")
    with hostile("resource.getrlimit(resource.RLIMIT_NPROC)", processes=60) as found:
        assert found == [60, 60]
    if os.geteuid() == 0:
        pytest.skip("root's processes are limited by control groups alone")
    with hostile("forks()", processes=60) as made:
        assert 40 < made < 60


HOST = """
import resource, subprocess, sys
from pathlib import Path
from brickyard.runtime.node.contexts.process import Beside
resource.setrlimit(resource.RLIMIT_NPROC, (4000, 4000))
node, ours = Path(sys.argv[1]), subprocess.PIPE
beside = Beside()
told = "import resource, sys; sys.stdin.read(); print(resource.getrlimit(resource.RLIMIT_NPROC))"
command, made = [sys.executable, "-c", told], beside.directories(node)
with (node / "log").open("wb") as log, subprocess.Popen(["sleep", "1"], stdout=ours) as line:
    kernel = beside.start(made, command, {}, node_dir=node, stdin=line.stdout, log=log)
    kernel.wait()
print((node / "log").read_text(), resource.getrlimit(resource.RLIMIT_NPROC))
"""


def test_a_kernel_is_refused_processes_before_its_node_host_and_spark_are(tmp_path: Path) -> None:
    """Where a limit of the user, or of the node's user namespace, is all that there is."""
    done = subprocess.run([sys.executable, "-c", HOST, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == ["(3000, 3000)", " (4000, 4000)", ""], done.stderr
