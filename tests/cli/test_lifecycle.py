"""The brickyard command as a person uses it: real processes on the simulated provider, on free ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient

from brickyard.lifecycle.workspace import Workspace

COMMAND = [sys.executable, "-c", "from brickyard.cli import main; main()"]


class Cli:
    """Runs commands on one data directory."""

    def __init__(self, home: Path) -> None:
        self.data = home / "data"
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("BRICKYARD_", "DATABRICKS_"))}
        self.environment = {
            **keep,
            "HOME": str(home),
            "BRICKYARD_DATA_DIR": str(self.data),
            "BRICKYARD_CACHE_DIR": str(home / "cache"),
            "BRICKYARD_PROVIDER": "simulated",
            "BRICKYARD_PORT": "0",
        }

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**self.environment, **environment},
            timeout=90,
        )

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.data)

    def client(self) -> WorkspaceClient:
        running = self.workspace.running()
        assert running is not None
        return WorkspaceClient(host=running.url, token=self.workspace.stored_token(), auth_type="pat")


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    yield made
    running = made.workspace.running()
    if running is not None:
        os.kill(running.pid, signal.SIGKILL)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """An error as people get it: one line, an exit code, no traceback."""
    assert done.returncode not in (0, None)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("brickyard: ")
    return lines[0]


def test_up_status_configure_down(cli: Cli) -> None:
    up = cli.run("up", "--detach")
    assert up.returncode == 0, up.stderr
    assert (cli.data.stat().st_mode & 0o777, (cli.data / "admin-token").stat().st_mode & 0o777) == (0o700, 0o600)
    assert (cli.data / "workspace.key").stat().st_mode & 0o777 == 0o600
    assert cli.client().current_user.me().user_name == "admin@brickyard.local"
    status = json.loads(cli.run("status", "--json").stdout)
    assert status["running"] is True
    assert status["clusters"] == []
    profile = cli.data.parent / ".databrickscfg"
    profile.write_text("[other]\nhost = https://example.com\n")
    assert cli.run("configure", "--profile", "mine").returncode == 0
    assert "[other]" in profile.read_text()
    assert cli.workspace.stored_token() in profile.read_text()
    assert profile.stat().st_mode & 0o777 == 0o600
    assert cli.run("down").returncode == 0
    assert cli.run("status").returncode == 3
    assert cli.run("down").returncode == 0


def test_a_second_server_on_the_same_data_is_refused(cli: Cli) -> None:
    assert cli.run("up", "--detach").returncode == 0
    running = cli.workspace.running()
    assert running is not None
    said = one_line(cli.run("up"))
    assert str(running.pid) in said
    assert running.url in said


def test_a_port_in_use_is_one_line(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for detach in ([], ["--detach"]):
            assert f"127.0.0.1:{port}" in one_line(cli.run("up", "--port", port, *detach))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--isolation", "maybe"], "isolation"),
        (["--port", "70000"], "port is 70000"),
        (["--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (["--data-dir", "/proc/nothing"], "/proc/nothing"),
        (["--database-url", "postgresql://nobody@127.0.0.1:1/none"], "cannot open the database"),
    ],
)
def test_a_bad_setting_is_one_line(cli: Cli, arguments: list[str], said: str) -> None:
    assert said in one_line(cli.run("up", *arguments))


def test_a_killed_server_is_followed_by_the_next(cli: Cli) -> None:
    assert cli.run("up", "--detach", BRICKYARD_ADMIN_TOKEN="dapi-mine").returncode == 0
    made = cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    running = cli.workspace.running()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while cli.workspace.running() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert cli.run("status").returncode == 3
    assert cli.run("up", "--detach").returncode == 0
    assert cli.workspace.stored_token() == "dapi-mine"
    assert cli.client().clusters.get(made.cluster_id).cluster_id == made.cluster_id
    assert cli.run("down").returncode == 0


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nsys.argv = ['brickyard', '--help']\nfrom brickyard.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('aiohttp', 'sqlalchemy', 'databricks', 'uvicorn', 'rich', 'msgspec') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
