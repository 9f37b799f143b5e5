"""What a killed test run leaves of its PostgreSQL is ended and removed by the next one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.postgres import remove_those_of_killed_runs

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.support.postgres import Postgres
server = Postgres.start(Path(sys.argv[1]))
with server.hung():
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.usefixtures("postgres")  # skips where there is none
def test_a_stopped_server_of_a_killed_run_is_ended(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    postmaster = psutil.Process(int(killed.stdout))
    home, processes = Path(postmaster.cwd()).parent, [postmaster, *filter(lives, postmaster.children(recursive=True))]
    assert all(map(lives, processes))
    remove_those_of_killed_runs()
    assert not any(map(lives, processes))
    assert not home.exists()
