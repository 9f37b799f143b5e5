"""Spark history servers for clusters that no longer run: one per cluster, started on demand and ended when idle.

Event logs contain what users' code wrote, so a history server runs in the same sandbox as a node and sees only that cluster's
event logs. It ends with this process, even if this process is killed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import os
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import structlog

from brickyard.config.settings import Settings
from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.domain.periodic import Periodic
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.gateway.jws import signed_token
from brickyard.gateway.pages import Upstream
from brickyard.machine import files
from brickyard.runtime.catalogue import rows
from brickyard.runtime.classes import compile_classes
from brickyard.runtime.installed import installed
from brickyard.runtime.inuse import RuntimeUse
from brickyard.runtime.node.jvm.launch import module_flags
from brickyard.runtime.node.jvm.login import MAIN as LOGIN
from brickyard.runtime.node.jvm.login import NAME, is_nameless
from brickyard.runtime.watch import CommandFailed
from brickyard.sandbox import launcher
from brickyard.sandbox.view import View, write_etc
from brickyard.storage.directory import Storage

EVENTS = "eventlog"  # the directory of event logs within a node's logs
IDLE_S = 600.0
START_S = 90.0
MOST = 4  # history servers at once; each uses about 300 MiB
HEAP = "512m"
HOST = "127.0.0.1"
_STARTED = re.compile(rb"started at https?://[^\s/]*:(\d+)")

log = structlog.get_logger(__name__)


class HistoryServer(Protocol):
    """A server of one cluster's event logs, as `HistoryServers` keeps them."""

    logs: tuple[Path, ...]
    key: bytes  # for the tokens that it requires
    url: str
    run: str  # the path of the newest run's pages
    used: float  # when it was last asked for; infinite while it starts

    @property
    def alive(self) -> bool: ...

    async def start(self) -> None:
        """Returns once it has read the logs. Raises TemporarilyUnavailable."""

    async def stop(self) -> None:
        """Ends it with all its child processes, and removes its files."""


class HistoryServers(Periodic):
    """One per server, for one event loop."""

    def __init__(
        self,
        *,
        settings: Settings,
        storage: Storage,
        idle_s: float = IDLE_S,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        super().__init__(every_s=idle_s / 20)
        self._settings = settings
        self._storage = storage
        self._idle_s = idle_s
        self._monotonic = monotonic
        self._servers: dict[str, HistoryServer] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def find(self, cluster_id: str, running: str) -> Upstream:
        """A history server for the cluster's event logs; `running` is its driver's instance, "" if none runs.
        Raises ResourceDoesNotExist, TemporarilyUnavailable."""
        async with self._turns.setdefault(cluster_id, asyncio.Lock()):
            logs = await asyncio.to_thread(self._event_logs, cluster_id, running)
            server = self._servers.get(cluster_id)
            if server is not None and (not server.alive or server.logs != logs):
                await self._end(cluster_id)
                server = None
            if server is None:
                server = await self._start(cluster_id, logs)
            server.used = self._monotonic()
            return Upstream(server.url, signed_token(server.key), server.run)

    async def kept_log(self, cluster_id: str, name: re.Pattern[str], limit: int) -> bytes | None:
        """The end of the cluster's newest kept log with such a name, or None if there is none."""
        return await asyncio.to_thread(self._storage.logs.tail, cluster_id, name, limit)

    async def close(self) -> None:
        """Ends all history servers."""
        for cluster_id in list(self._servers):
            await self._end(cluster_id)

    def _event_logs(self, cluster_id: str, running: str) -> tuple[Path, ...]:
        """All event logs of the cluster. Raises ResourceDoesNotExist."""
        places = [directory / EVENTS for directory in self._storage.logs.nodes(cluster_id)]
        if running:
            places.insert(0, self._storage.instance_logs(running) / EVENTS)
        found = [place / name for place in places for name, size in files.list_files(place) if size and "/" not in name]
        if not found:
            raise ResourceDoesNotExist(
                f"Cluster {cluster_id} has left no event log: it has not run yet, its conf disables spark.eventLog.enabled or "
                "writes the log elsewhere, or the log was too large to keep."
            )
        return tuple(found)

    async def _start(self, cluster_id: str, logs: tuple[Path, ...]) -> HistoryServer:
        while len(self._servers) >= MOST:
            await self._end(min(self._servers, key=lambda each: self._servers[each].used))
        server = await asyncio.to_thread(self.make, self._settings.data_dir / "history" / cluster_id, logs)
        self._servers[cluster_id] = server
        try:
            await server.start()
        except BaseException:
            await self._end(cluster_id)
            raise
        return server

    def make(self, place: Path, logs: tuple[Path, ...]) -> HistoryServer:
        """A server over event logs that is not started yet, with a directory. For any thread."""
        use = RuntimeUse(self._settings.cache_dir)
        try:
            manifest = self._runtime_kept(use)
        except BaseException:
            use.end()
            raise
        return SparkHistoryServer(manifest=manifest, use=use, place=place, logs=logs, isolation=self._settings.isolation)

    def _runtime_kept(self, use: RuntimeUse) -> RuntimeManifest:
        """The runtime to start on; nobody can remove it while `use` lasts.

        Race: it is removed between the check and the use. Then the next check finds another one, or none.
        """
        while True:
            manifest = self._runtime()
            use.begin(manifest.environment)
            if installed(manifest.environment, self._settings.cache_dir) is not None:
                return manifest

    def _runtime(self) -> RuntimeManifest:
        """The newest installed runtime whose web server can require a token: one on Spark 4, which also reads Spark 3's logs."""
        names = dict.fromkeys(runtime.environment for runtime in rows())
        manifests = [made for name in names if (made := installed(name, self._settings.cache_dir)) is not None]
        usable = [made for made in manifests if not made.spark_version.startswith("3.")]
        if not usable:
            raise TemporarilyUnavailable(
                "The Spark UI of past runs needs a runtime on Spark 4, and none is installed: "
                "`brickyard runtime install 17.3.x-scala2.13`."
            )
        return max(usable, key=lambda made: tuple(int(part) for part in made.spark_version.split(".") if part.isdigit()))

    async def _end(self, cluster_id: str) -> None:
        server = self._servers.pop(cluster_id, None)
        if server is not None:
            await server.stop()

    async def run_once(self) -> None:
        """End the history servers that nobody has asked for in a while."""
        for cluster_id, server in list(self._servers.items()):
            if self._monotonic() - server.used > self._idle_s:
                await self._end(cluster_id)


class SparkHistoryServer:
    """One process, which serves one cluster's event logs."""

    def __init__(
        self, *, manifest: RuntimeManifest, use: RuntimeUse, place: Path, logs: tuple[Path, ...], isolation: launcher.Mode
    ) -> None:
        self.logs = logs
        self.key = secrets.token_bytes(32)
        self.url = ""
        self.run = ""  # the path of the newest run's pages
        self.used = math.inf  # starting does not count as idle
        self._manifest = manifest
        self._use = use  # of the runtime, until the process ends
        self._root = place
        self._place = place / "node"  # the only directory it may write to
        self._isolation = isolation
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Returns once it has read the logs. Raises TemporarilyUnavailable."""
        await asyncio.to_thread(self._prepare)
        walls = launcher.choose(self._isolation, await asyncio.to_thread(launcher.probe, mode=self._isolation))
        if self._isolation == "required" and walls.kind == "none":
            raise TemporarilyUnavailable("This workspace requires isolation, and this machine has none; nothing was started.")
        manifest = self._manifest
        paths = (manifest.home, manifest.python_base, manifest.java_real, *sorted({str(each.parent) for each in self.logs}))
        etc = str(self._root / "etc")
        view = View(hostname="history", etc=etc, read_only=tuple(filter(None, paths)), node_dir=str(self._place))
        argv = await asyncio.to_thread(_command, manifest, self._place, login=walls.kind == "none" and is_nameless())
        env = launcher.environment("history", node_dir=self._place, tmp=str(self._place / "tmp"), source=os.environ)
        env |= {
            "SPARK_HOME": manifest.spark_home, "JAVA_HOME": manifest.java_home,
            "SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_HOSTNAME": HOST, "SPARK_PUBLIC_DNS": HOST,
        }  # fmt: skip
        self._process = await asyncio.create_subprocess_exec(
            *walls.command(argv, view=view), env=env, cwd="/", start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(START_S):
                self.url = f"http://{HOST}:{await self._port()}"
                self.run = await self._newest_application()
        except TimeoutError as error:
            raise TemporarilyUnavailable(f"Spark's history server was not ready within {START_S:.0f} s. Try again.") from error

    async def stop(self) -> None:
        """Ends it with all its child processes, and removes its files."""
        if self._reader is not None:
            self._reader.cancel()
        process = self._process
        if process is not None and process.returncode is None:
            for send, patience_s in ((process.terminate, 3.0), (process.kill, 5.0)):
                with contextlib.suppress(ProcessLookupError):
                    send()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), patience_s)
                    break
        self._use.end()
        with contextlib.suppress(OSError):  # the next one for this cluster removes it too
            await asyncio.to_thread(files.remove_tree, self._root)

    def _prepare(self) -> None:
        """Creates the directories, the settings, and one directory with links to all event logs."""
        files.remove_tree(self._root)  # left by a killed server
        self._place.mkdir(mode=0o700, parents=True)
        write_etc(self._root / "etc", hostname="history", host=HOST, home=str(self._place / "home"))
        for name in ("conf", "tmp", "home", "work", "events"):
            (self._place / name).mkdir(mode=0o700, parents=True)
        for number, path in enumerate(self.logs):
            name = path.name if path.name not in {each.name for each in self.logs[:number]} else f"{number}-{path.name}"
            (self._place / "events" / name).symlink_to(path)
        settings = {
            "spark.history.fs.logDirectory": f"file:{self._place}/events",
            "spark.history.ui.port": "0",
            "spark.history.fs.update.interval": "5s",
            "spark.history.fs.cleaner.enabled": "false",
            "spark.history.retainedApplications": "4",
            "spark.local.dir": str(self._place / "work"),
            "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
            "spark.org.apache.spark.ui.JWSFilter.param.secretKey": base64.urlsafe_b64encode(self.key).decode(),
        }
        path = self._place / "conf" / "history.conf"
        path.touch(mode=0o600)
        path.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))

    async def _port(self) -> int:
        """Waits until it reports its port. Raises TemporarilyUnavailable if it ends instead."""
        assert self._process is not None and self._process.stdout is not None  # noqa: S101 - set by `start`
        said: list[bytes] = []
        async for line in self._process.stdout:
            said = [*said[-4:], line.strip()]
            if (match := _STARTED.search(line)) is not None:
                self._reader = asyncio.create_task(_drain(self._process.stdout))
                return int(match.group(1))
        last = b" / ".join(said).decode(errors="replace")[-500:]
        raise TemporarilyUnavailable(f"Spark's history server ended before it was ready: {last or 'it said nothing'}")

    async def _newest_application(self) -> str:
        """The path of the newest run's pages; returns once its log has been read."""
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

        headers = {"Authorization": f"Bearer {signed_token(self.key)}"}
        async with aiohttp.ClientSession(headers=headers, trust_env=False) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.url}/api/v1/applications") as answer:
                        applications: list[dict[str, Any]] = await answer.json() if answer.status == 200 else []
                    if applications:
                        return f"/history/{_newest(applications)}"
                if not self.alive:
                    raise TemporarilyUnavailable("Spark's history server ended before it had read the event logs.")
                await asyncio.sleep(0.2)


def _command(manifest: RuntimeManifest, place: Path, *, login: bool) -> list[str]:
    """The command line of a history server in the node's directory `place`. `login`: it runs as a user without a name, for whom
    Hadoop needs one; within walls, it has the name of `write_etc`. May compile our classes. Raises TemporarilyUnavailable."""
    classes = _classes(manifest) if login else []
    return [
        f"{manifest.java_home}/bin/java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
        *module_flags(manifest.java_version),
        "-cp", ":".join([f"{manifest.spark_home}/jars/*", *classes]),
        *((NAME, LOGIN) if login else ()),
        "org.apache.spark.deploy.history.HistoryServer", "--properties-file", str(place / "conf" / "history.conf"),
    ]  # fmt: skip


def _classes(manifest: RuntimeManifest) -> list[str]:
    try:
        return [compile_classes(manifest).classes]
    except (CommandFailed, OSError) as error:
        raise TemporarilyUnavailable(f"Brickyard's classes for Spark cannot be compiled: {error}") from error


def _newest(applications: Sequence[dict[str, Any]]) -> str:
    """Id, with the attempt if there is one, of the application that started last."""
    runs = [
        (attempt.get("startTimeEpoch", 0), each["id"], attempt.get("attemptId"))
        for each in applications
        for attempt in each["attempts"]
    ]
    _, app_id, attempt = max(runs, key=lambda run: run[0])
    return f"{app_id}/{attempt}" if attempt else str(app_id)


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass
