"""A driver whose cluster is about to stop: users' programs are told, and what runs is waited for."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from brickyard.agent.telling import left, programs_of, tell
from brickyard.domain.node import Phase
from tests.agent.world import World, assignment
from tests.support.patience import until

# A kernel by its command line and its group, with a program, one that ignores SIGTERM, and one that loses its parent.
KERNEL = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: open("kernel.told", "w").close())
program = '''
import signal, sys, time
name = sys.argv[1]
def told(*_):
    open(name + ".told", "w").close()
    while not __import__("os").path.exists("go"):
        time.sleep(0.02)
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if name == "deaf" else told)
open(name + ".ready", "w").close()
time.sleep(600)
'''
open("program.py", "w").write(program)
for name in ("plain", "deaf"):
    subprocess.Popen([sys.executable, "program.py", name])
subprocess.run(["/bin/sh", "-c", "nohup " + sys.executable + " program.py orphan > /dev/null 2>&1 &"])
while True:
    time.sleep(0.05)
"""
# The node: like a node host, it adopts what loses its parent. Beside the kernel runs something that is no user's.
TOP = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.Popen([sys.executable, "start.py", "kernel"], start_new_session=True, env={**os.environ, "CONTEXT_PACKAGES": "x"})
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("top.ready", "w").close()
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """The pid of a node's first process, and the directory in which its programs write."""
    (tmp_path / "start.py").write_text(textwrap.dedent(KERNEL))
    top = subprocess.Popen([sys.executable, "-c", TOP], cwd=tmp_path)
    try:
        for name in ("top", "plain", "deaf", "orphan"):
            until((tmp_path / f"{name}.ready").exists, f"{name} runs")
        yield top.pid, tmp_path
    finally:
        for process in psutil.Process(top.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        top.kill()
        top.wait()


def test_kernels_and_what_they_have_started_are_told_and_nothing_else(node: tuple[int, Path]) -> None:
    top, place = node
    found = programs_of(top)
    names = sorted(psutil.Process(each.pid).cmdline()[-1] for each in found.started)
    assert names == ["deaf", "orphan", "plain"]
    assert [psutil.Process(each.pid).cmdline()[1:] for each in found.kernels] == [["start.py", "kernel"]]
    tell(found)
    for name in ("kernel", "plain", "orphan"):
        until((place / f"{name}.told").exists, f"{name} has been told")
    assert {psutil.Process(each.pid).cmdline()[-1] for each in left(found.started)} == {"orphan", "plain"}, "one is deaf"
    (place / "go").touch()
    until(lambda: not left(found.started), "they have ended")
    others = [each.cmdline()[-1] for each in psutil.Process(top).children() if each.status() != psutil.STATUS_ZOMBIE]
    assert "import time; time.sleep(600)" in others
    assert "kernel" in others, "a kernel decides for itself"


def test_a_driver_says_when_nothing_runs_any_more(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    go = one.node / "work" / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)"
    one.begin(waits)
    here.server.assign(one.id, assignment(version=2, closing=True))
    told = here.server.status(one.id, lambda status: status.told_ms > 0)
    assert (told.phase, told.quiet_ms) == (Phase.READY, 0)
    status, _ = one.request("GET", "/v1/contexts/test")
    assert status == 200, "its contexts can still be asked"
    go.touch()
    quiet = here.server.status(one.id, lambda status: status.quiet_ms > 0)
    assert quiet.phase is Phase.READY
    assert quiet.quiet_ms >= told.told_ms
    here.server.assign(one.id, assignment(version=3, generation=2))
    again = here.server.status(one.id, lambda status: status.generation == 2 and status.phase is Phase.READY)
    assert (again.told_ms, again.quiet_ms) == (0, 0), "a restart begins anew"


def test_a_driver_whose_spark_runs_something_is_not_quiet_and_can_be_ended(here: World) -> None:
    one = here.instance().start()
    here.ready(one)
    one.execute("state['spark'] = True")
    here.server.assign(one.id, assignment(version=2, closing=True))
    told = here.server.status(one.id, lambda status: status.told_ms > 0)
    assert told.quiet_ms == 0
    here.server.assign(one.id, None)
    idle = here.server.status(one.id, lambda status: status.phase is Phase.IDLE)
    assert idle.quiet_ms == 0
