"""The main job on real Spark: what a newcomer runs first, twice, with a SIGKILL of the server in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from brickyard.lifecycle.workspace import Workspace
from tests.support.patience import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]


def brickyard(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from brickyard.cli import main; main()", *arguments, "--data-dir", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "BRICKYARD_PORT": "0"})


def processes_of(data: Path) -> list[psutil.Process]:
    """Every living process that was started for the data directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and str(data) in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_quickstart_twice_with_a_kill_in_between(tmp_path: Path) -> None:
    data = tmp_path / "workspace"
    try:
        first = brickyard(data, "quickstart")
        assert first.returncode == 0, first.stdout + first.stderr
        assert "United Air Lines Inc." in first.stdout
        assert "58,665" in first.stdout
        assert "cold: the pool was empty" in first.stdout
        assert "warm: the same instances, prepared again" in first.stdout
        assert "2 of 2 nodes from the instance pool started warm." in first.stdout
        running = Workspace(data).running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        until(lambda: Workspace(data).running() is None, "the end of the server")
        again = brickyard(data, "quickstart", "--no-pool")
        assert again.returncode == 0, again.stdout + again.stderr
        assert "is there" in again.stdout, "the cluster that ran on was adopted"
    finally:
        down = brickyard(data, "down")
    assert down.returncode == 0, down.stdout + down.stderr
    until(lambda: not processes_of(data), "the end of every process")
