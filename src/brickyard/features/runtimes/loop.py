"""Trains the runtimes of the server's machine in the background: class-data archives, with which JVMs start faster.

One runtime at a time, in a process of the lowest priority that waits until nothing else happens on the machine, and stops as soon
as a node starts (`runtime/background.py`). Whatever kills it, the next one begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from brickyard.domain.periodic import Periodic
from brickyard.runtime import catalogue
from brickyard.runtime.installed import installed
from brickyard.runtime.lock import being_trained
from brickyard.runtime.training import is_trained, last_failure

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-P", "-m", "brickyard.runtime")
LOOK_S = 10.0
AGAIN_MS = 3_600_000  # after a training that failed


class Trainings(Periodic):
    """One per server whose nodes run on its own machine."""

    def __init__(self, *, cache_dir: Path, command: Sequence[str] = COMMAND, look_s: float = LOOK_S) -> None:
        super().__init__(every_s=look_s, later=True)
        self._cache_dir = cache_dir
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    async def run_once(self) -> None:
        """Look for a runtime to train."""
        if self._process is not None and self._process.poll() is not None:
            log.info("training_ended", code=self._process.returncode)
            self._process = None
        if self._process is None and (key := await asyncio.to_thread(self.next)):
            log.info("training_waits", runtime=key)
            self._process = self._start(key)

    async def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)  # it passes the signal on to all that it has started

    def next(self) -> str:
        """Returns the key of a runtime that is to be trained, or "". Reads files."""
        now_ms = time.time_ns() // 1_000_000
        for environment, key in {each.environment: each.key for each in catalogue.rows()}.items():
            manifest = installed(environment, self._cache_dir)
            if manifest is None or is_trained(manifest) or being_trained(environment, self._cache_dir):
                continue
            failure = last_failure(environment, self._cache_dir)
            if failure is None or now_ms - failure.at_ms >= AGAIN_MS:
                return key
        return ""

    def _start(self, key: str) -> subprocess.Popen[bytes] | None:
        command = [*self._command, "train", key, "--cache-dir", str(self._cache_dir), "--background", str(os.getpid())]
        try:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            log.warning("training_cannot_start", runtime=key, why=str(error))
            return None
