"""The brickyard command as a person uses it: real processes, on free ports and in a separate home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from brickyard.server.datadir import Workspace
from tests.support import forks
from tests.support.patience import PATIENCE_S
from tests.support.sdk import WorkspaceClient

COMMAND = [sys.executable, "-c", "from brickyard.cli import main; main()"]


class Cli:
    """Runs commands on one data directory, on the simulated provider unless told otherwise."""

    def __init__(self, home: Path, *, real_servers: bool = False) -> None:
        self.real_servers = real_servers
        self.data = home / "data"
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("BRICKYARD_", "DATABRICKS_"))}
        self.environment = {
            **keep,
            "HOME": str(home),
            "BRICKYARD_DATA_DIR": str(self.data),
            "BRICKYARD_CACHE_DIR": str(home / "cache"),
            "BRICKYARD_PROVIDER": "simulated",
            "BRICKYARD_PORT": "0",
            "BRICKYARD_ENDS_WITH": str(os.getpid()),
        }

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end, in a process that need not import it, unless Python's own start reads the environment that
        it is given. Servers on the simulated provider are such ones too, but where the test is about how they start and end."""
        environ = {**self.environment, **environment}
        if any(name.startswith(("PYTHON", "LC_", "LANG")) for name in environment):
            command = [*COMMAND, *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=PATIENCE_S)
        if arguments[:1] == ("up",) and not self.real_servers and environ["BRICKYARD_PROVIDER"] == "simulated":
            return forks.commands().run(
                "tests.support.forkedservers:main", forks.servers().place, argv=["-c", *arguments], environment=environ
            )
        return forks.commands().run("brickyard.cli:main", argv=["-c", *arguments], environment=environ)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Runs the command in its own process group, as a terminal would."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **environment},
            process_group=0,
        )

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.data)

    def client(self) -> WorkspaceClient:
        running = self.workspace.running()
        assert running is not None
        return WorkspaceClient(host=running.url, token=self.workspace.stored_token(), auth_type="pat")


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """Checks an error as users see it: one line, an exit code, no traceback."""
    assert done.returncode not in (0, None)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("brickyard: ")
    return lines[0]


def processes_of(home: Path) -> list[str]:
    """Command lines of running processes that were started for the test's home."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and (str(home) in line or process.environ().get("HOME") == str(home)):
                found.append(line)
        except psutil.Error:
            continue
    return found
