"""A workspace's data directory, and the server on it ended after each test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    yield made
    running = made.workspace.running()
    if running is not None:
        os.kill(running.pid, signal.SIGKILL)
