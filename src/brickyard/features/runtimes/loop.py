"""Completes the runtimes of the server's machine in the background: their layers (`runtime/layers.py`) and their second layer of
packages (`runtime/packages.py`), then class-data archives, with which JVMs start faster.

Layers and packages come first, since notebooks use them: at the lowest priority, once the machine has nothing else to do, or
after a minute without a node that starts. The archives wait until nothing else happens, and stop as soon as a node starts
(`runtime/background.py`). One runtime at a time, in a process of its own. Whatever kills it, the next one begins anew.
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
from typing import NamedTuple

import structlog

from brickyard.domain.periodic import Periodic
from brickyard.runtime import catalogue, layers
from brickyard.runtime.installed import installed
from brickyard.runtime.lock import at_work
from brickyard.runtime.packages import KIND as PACKAGES
from brickyard.runtime.packages import failed_lately, is_missing
from brickyard.runtime.training import is_trained, last_failure

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-P", "-m", "brickyard.runtime")
LOOK_S = 10.0
AGAIN_MS = 3_600_000  # after a training that failed


class Work(NamedTuple):
    """What one process does: an action of `python -m brickyard.runtime`, and the runtime's key."""

    action: str
    key: str


class Trainings(Periodic):
    """One per server whose nodes run on its own machine."""

    def __init__(self, *, cache_dir: Path, command: Sequence[str] = COMMAND, look_s: float = LOOK_S) -> None:
        super().__init__(every_s=look_s, later=True)
        self._cache_dir = cache_dir
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    async def run_once(self) -> None:
        """Look for a runtime to complete."""
        if self._process is not None and self._process.poll() is not None:
            log.info("runtime_work_ended", code=self._process.returncode)
            self._process = None
        if self._process is None and (work := await asyncio.to_thread(self.next)) is not None:
            log.info("runtime_work_waits", action=work.action, runtime=work.key)
            self._process = self._start(work)

    async def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)  # it passes the signal on to all that it has started

    def next(self) -> Work | None:
        """Returns what is to be done next. Reads files."""
        now_ms = time.time_ns() // 1_000_000
        keys = {each.environment: each.key for each in catalogue.rows()}
        for environment, key in keys.items():
            if layers.due(environment, self._cache_dir, now_ms=now_ms) and not at_work(environment, self._cache_dir, layers.KIND):
                return Work("layers", key)
        for environment, key in keys.items():
            if not is_missing(environment, self._cache_dir) or at_work(environment, self._cache_dir, PACKAGES):
                continue
            if not failed_lately(environment, self._cache_dir, now_ms=now_ms):
                return Work("packages", key)
        for environment, key in keys.items():
            manifest = installed(environment, self._cache_dir)
            if manifest is None or is_trained(manifest) or at_work(environment, self._cache_dir):
                continue
            failure = last_failure(environment, self._cache_dir)
            if failure is None or now_ms - failure.at_ms >= AGAIN_MS:
                return Work("train", key)
        return None

    def _start(self, work: Work) -> subprocess.Popen[bytes] | None:
        command = [*self._command, work.action, work.key, "--cache-dir", str(self._cache_dir), "--background", str(os.getpid())]
        try:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            log.warning("runtime_work_cannot_start", runtime=work.key, why=str(error))
            return None
