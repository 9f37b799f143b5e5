"""The brickyard command, with servers in the background that need not import what they run either."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import IO, Any

from brickyard.cli import main as brickyard
from brickyard.cli import up
from tests.support.forks import Forked, fork


def main(place: str) -> None:
    """Runs the command; a template at that place forks the servers."""

    def popen(argv: list[str], *, stdout: IO[bytes], env: Mapping[str, str], cwd: str, **how: Any) -> Forked:
        assert argv == [sys.executable, "-P", "-m", "brickyard.server"]
        assert how == {"stdin": subprocess.DEVNULL, "stderr": stdout, "start_new_session": True}
        with open(os.devnull) as nothing:  # noqa: PTH123 - a device
            descriptors = {0: nothing.fileno(), 1: stdout.fileno(), 2: stdout.fileno()}
            return fork(
                place, "brickyard.server.process:main", argv=["-m"], environment=env, descriptors=descriptors, directory=cwd,
                session=True,
            )  # fmt: skip

    # All that it uses.
    vars(up)["subprocess"] = SimpleNamespace(Popen=popen, DEVNULL=subprocess.DEVNULL)
    brickyard()
