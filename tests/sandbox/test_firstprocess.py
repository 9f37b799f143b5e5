"""An agent that is the first process of its container. A subreaper stands in for it: orphans are given to it as well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.agent.world import SOURCE, living
from tests.support.patience import PATIENCE_S, until

PROGRAM = """
    import ctypes, os, signal, subprocess, sys, time
    from pathlib import Path
    from brickyard.sandbox.firstprocess import guarded
    from brickyard.machine.linux import PR_SET_CHILD_SUBREAPER

    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    top = Path(sys.argv[1])

    def work():
        {work}

    sys.exit(guarded(work, first=True))
"""


def start(tmp_path: Path, work: str) -> subprocess.Popen[bytes]:
    program = textwrap.dedent(PROGRAM).format(work=textwrap.indent(textwrap.dedent(work).strip(), "    ").strip())
    return subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(SOURCE)})


@pytest.mark.parametrize(("end", "code"), [("return 78", 78), ("os.kill(os.getpid(), signal.SIGKILL)", 137)])
def test_the_exit_code_is_passed_on(tmp_path: Path, end: str, code: int) -> None:
    assert start(tmp_path, end).wait(PATIENCE_S) == code


def test_a_signal_reaches_the_agent(tmp_path: Path) -> None:
    work = """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        (top / "ready").touch()
        time.sleep(600)
    """
    process = start(tmp_path, work)
    until((tmp_path / "ready").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 5


def test_orphans_leave_no_zombies(tmp_path: Path) -> None:
    work = """
        subprocess.run(["sh", "-c", "sleep 0 & echo $! > " + str(top / "orphan")])
        while not (top / "done").exists():
            time.sleep(0.02)
        return 0
    """
    process = start(tmp_path, work)
    try:
        orphan = until(lambda: "".join(path.read_text().strip() for path in tmp_path.glob("orphan")), "the orphan's id")
        until(lambda: not Path(f"/proc/{orphan}").exists(), "the end of the zombie")
        assert living(process.pid)
    finally:
        (tmp_path / "done").touch()
    assert process.wait(PATIENCE_S) == 0
