"""A workspace's data directory, and the server on it ended after each test."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Cli


@pytest.fixture
def cli(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cli]:
    made = Cli(tmp_path, real_servers=getattr(request.module, "REAL_SERVERS", False))
    yield made
    running = made.workspace.running()
    if running is not None:
        os.kill(running.pid, signal.SIGKILL)


@pytest.fixture
def slow_index() -> Iterator[str]:
    """A package index that takes calls and never answers: a runtime's installation goes on for as long as the test needs."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1024)  # a call that finds no place here would fail
        yield f"http://127.0.0.1:{silent.getsockname()[1]}/simple"


@pytest.fixture
def local(cli: Cli, slow_index: str) -> Cli:
    """The command with real nodes, whose runtime cannot be had."""
    cli.environment |= {"BRICKYARD_PROVIDER": "local", "UV_DEFAULT_INDEX": slow_index, "UV_HTTP_TIMEOUT": "3600"}
    return cli
