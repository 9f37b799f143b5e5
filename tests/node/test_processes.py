"""Processes end with their parent, and are found wherever they hide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from brickyard.runtime.node import processes
from tests.node.namesakes import MOUNT
from tests.support.patience import until


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


PARENT = """
import sys, threading, time
{mount}
from _brickyard_node.processes import Spawner
spawner = Spawner()
pids = []
worker = threading.Thread(target=lambda: pids.append(spawner.popen(["sleep", "300"]).pid))
worker.start()
worker.join()
time.sleep(0.2)  # the thread that asked has ended; what it asked for must live
print(pids[0], flush=True)
time.sleep(300)
"""


def test_children_die_with_us_but_not_with_the_thread_that_asked() -> None:
    code = PARENT.format(mount=MOUNT)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            assert alive(pid)
        finally:
            parent.kill()
    until(lambda: not alive(pid))


def test_descendants_are_killed_however_they_detach() -> None:
    code = "import os,time; os.setsid() if os.fork() == 0 else None; time.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        until(lambda: len(psutil.Process(child.pid).children(recursive=True)) == 1)
        grandchild = psutil.Process(child.pid).children()[0].pid
        assert {child.pid, grandchild} <= set(processes.descendants(os.getpid()))
        processes.kill_descendants(child.pid)
        until(lambda: not alive(grandchild))
        child.kill()


def test_orphans_are_reaped_and_others_left_to_their_owner() -> None:
    child = subprocess.Popen(["true"])
    until(lambda: child.pid in processes.zombie_children(os.getpid()))
    reaper = processes.Reaper()
    assert child.pid not in reaper.sweep(100.0)
    assert child.pid not in reaper.sweep(100.0 + processes.UNCLAIMED_S - 1)
    assert child.pid in reaper.sweep(100.0 + processes.UNCLAIMED_S)
    assert child.pid not in processes.zombie_children(os.getpid())
    child.wait()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        processes.Spawner().popen([str(tmp_path / "none")])
