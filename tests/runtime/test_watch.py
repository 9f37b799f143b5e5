"""The commands that an installation runs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.support.patience import until

WATCHING = """
    import sys
    from brickyard.runtime.watch import run_watched
    code = "import os, time; open({file!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    run_watched([sys.executable, "-c", code], watch=lambda pid, lines: None, limit_s=1000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels end no child with its parent")
@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_command_ends_with_the_process_that_runs_it(tmp_path: Path, how: str) -> None:
    file = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WATCHING).format(file=str(file))])
    pid = int(until(lambda: file.read_text() if file.exists() else "", "the command"))
    getattr(process, how)()
    process.wait()
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "the end of the command")
