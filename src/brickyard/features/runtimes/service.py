"""Spark runtimes of the server's machine, for administrators: which are installed, and install and remove them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidState, ResourceDoesNotExist
from brickyard.domain.runtimes import Runtime
from brickyard.runtime import catalogue, installer
from brickyard.runtime.installed import installed
from brickyard.runtime.inuse import RuntimeInUse
from brickyard.runtime.progress import Board, Report
from brickyard.runtime.training import is_trained, last_failure
from brickyard.store.store import Store

STALE_S = 30.0  # an installer writes its progress twice a second: nobody writes an older one any more
COMMAND = (sys.executable, "-m", "brickyard.runtime")  # what agents run too


class RuntimeKey(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime, such as 17.3.x-scala2.13."""

    key: str


class RuntimeProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an installation or a training is. `share` is between 0 and 1; `left_s` in seconds, if it can be told."""

    message: str
    share: float
    left_s: int | None = None


class RuntimeStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime on the machine of the server that answers. Keys with the same `environment` are installed and removed together.
    `failure`: why its last installation by this server failed. `trained`: its JVMs start as fast as they can; until then starts
    are slower. `training`: how far that is, if it is being done; `training_failure`: why it failed last."""

    key: str
    name: str
    spark_version: str
    environment: str
    installed: bool
    installed_ms: int = 0
    has_connect: bool = False
    installing: RuntimeProgress | None = None
    failure: str = ""
    trained: bool = False
    training: RuntimeProgress | None = None
    training_failure: str = ""


class RuntimeStandings(msgspec.Struct, frozen=True, kw_only=True):
    runtimes: list[RuntimeStanding]


class RuntimeService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, authorizer: Authorizer, cache_dir: Path, command: Sequence[str] = COMMAND) -> None:
        self._store = store
        self._authorizer = authorizer
        self._cache_dir = cache_dir
        self._command = command
        self._installing: dict[str, subprocess.Popen[bytes]] = {}  # by environment
        self._waiting: set[asyncio.Task[None]] = set()
        self._failures: dict[str, str] = {}

    async def list(self, caller: Caller) -> RuntimeStandings:
        """Every runtime of the catalogue."""
        await self._require(caller, "see the runtimes of the")
        return RuntimeStandings(runtimes=await asyncio.to_thread(lambda: [self._standing(each) for each in catalogue.rows()]))

    async def install(self, caller: Caller, key: str) -> None:
        """Begins to install a runtime, unless it is installed or being installed; `list` says how far it is."""
        await self._require(caller, "install runtimes for the")
        runtime = _found(key)
        if runtime.environment in self._installing:
            return
        await self._store.before_effect()
        self._failures.pop(runtime.environment, None)
        command = [*self._command, "install", runtime.key, "--cache-dir", str(self._cache_dir)]
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - only its start is here, which takes a millisecond
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        except OSError as error:
            self._failures[runtime.environment] = f"the installer cannot be started: {error}"
            return
        self._installing[runtime.environment] = process
        self._waiting.add(task := asyncio.create_task(self._wait(runtime.environment, process)))
        task.add_done_callback(self._waiting.discard)

    async def remove(self, caller: Caller, key: str) -> None:
        """Removes a runtime, and with it those that share its environment."""
        await self._require(caller, "remove runtimes of the")
        runtime = _found(key)
        if runtime.environment in self._installing:
            raise InvalidState(f"{key} is being installed. Wait until it is.")
        await self._store.before_effect()
        try:
            await asyncio.to_thread(installer.remove, runtime.environment, cache_dir=self._cache_dir)
        except RuntimeInUse as error:
            raise InvalidState(
                f"{key} is in use: nodes of this machine run on it, of clusters or of pools that keep it warm, or the Spark UI "
                "of past runs does. Terminate those first."
            ) from error
        self._failures.pop(runtime.environment, None)

    async def close(self) -> None:
        """Ends installations: what is not complete does not count, and the next one begins anew."""
        for process in self._installing.values():
            process.terminate()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _wait(self, environment: str, process: subprocess.Popen[bytes]) -> None:
        """On a thread: asyncio's own subprocesses never end if their task is cancelled while they start (Python 3.11)."""
        try:
            _, said = await asyncio.to_thread(process.communicate)
        finally:
            del self._installing[environment]
        if process.returncode:
            self._failures[environment] = said.decode(errors="replace").strip()[-2000:] or "it ended without a reason"

    def _standing(self, runtime: Runtime) -> RuntimeStanding:
        manifest = installed(runtime.environment, self._cache_dir)
        failed = last_failure(runtime.environment, self._cache_dir) if manifest else None
        return RuntimeStanding(
            key=runtime.key,
            name=runtime.name,
            spark_version=runtime.spark_version,
            environment=runtime.environment,
            installed=manifest is not None,
            installed_ms=manifest.installed_ms if manifest else 0,
            has_connect=manifest.has_connect if manifest else False,
            installing=self._progress(runtime.environment),
            failure=self._failures.get(runtime.environment, ""),
            trained=manifest is not None and is_trained(manifest),
            training=self._reported(runtime.environment, training=True),
            training_failure=failed.message if failed else "",
        )

    def _progress(self, environment: str) -> RuntimeProgress | None:
        """The progress of the process that installs it: this server, another one, or a node's agent."""
        if (reported := self._reported(environment)) is not None:
            return reported
        if environment in self._installing:
            return RuntimeProgress(message="Beginning", share=0.0)
        return None

    def _reported(self, environment: str, *, training: bool = False) -> RuntimeProgress | None:
        """What a process that installs or trains it has written."""
        board = Board(environment, self._cache_dir, training=training)
        report: Report | None = board.read()
        if report is None or time.time() - board.written_s() >= STALE_S:
            return None
        return RuntimeProgress(message=report.head, share=report.share, left_s=report.left_s)

    async def _require(self, caller: Caller, to: str) -> None:
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to))


def _found(key: str) -> Runtime:
    runtime = catalogue.find(key)
    if runtime is None:
        unknown = catalogue.unknown(key)[:1000]
        raise ResourceDoesNotExist(unknown[0].upper() + unknown[1:])
    return runtime
