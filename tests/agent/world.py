"""A small server and instances for agents to live in: everything real but Spark."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from brickyard.agent.config import AgentConfig
from brickyard.domain.endpoints import parse
from brickyard.domain.node import (
    REPORT_S,
    Assignment,
    AssignmentReply,
    NodeStatus,
    Phase,
    Poll,
    Role,
    ServerAddress,
    StatusReply,
    StatusReport,
)
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine.cgroups import Group
from brickyard.machine.tls import pinning_context
from tests.support import forks
from tests.support.forks import Forked
from tests.support.patience import PATIENCE_S, until

FAKES = Path(__file__).with_name("fakes")
SOURCE = Path(__file__).parents[2] / "src"
SERVER_TOKEN = "server-secret"


def living(pid: int) -> bool:
    """Whether a process exists that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class FakeServer:
    """The server's side of the agent protocol, on a thread of its own."""

    def __init__(self, data_dir: Path, *, file: str = "server.json") -> None:
        self.data_dir = data_dir
        self.file = data_dir / file
        self.servers: tuple[ServerAddress, ...] = ()  # what it tells agents of all servers
        self.reports: list[StatusReport] = []
        self.assignments: dict[str, Assignment] = {}
        self.known = True
        self.move_to: ServerAddress | None = None  # where it sends agents that report
        self.samples_again = False  # whether it wants samples again that another server may not have written
        self.database_away = False
        self.report_s = REPORT_S  # how often it wants reports
        self.unheard = False  # whether it says that it has heard no report
        self.brought: list[Poll] = []
        self.server_token = SERVER_TOKEN
        self.polls = 0
        self._condition = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._changed: asyncio.Event = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    # ── life ──

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._serve())
        if not self.servers:
            self.servers = (self.address,)
        self.file.write_text(json.dumps({"pid": os.getpid(), "url": self.url, "started_ms": 1}))

    @property
    def address(self) -> ServerAddress:
        return ServerAddress(url=self.url, file=str(self.file))

    def stop(self) -> None:
        if self._thread is None:
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._thread = None

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _serve(self) -> None:
        self._changed = asyncio.Event()
        app = web.Application()
        app.router.add_post("/agent/v1/status", self._status)
        app.router.add_get("/agent/v1/assignment", self._assignment)
        app.router.add_post("/agent/v1/poll", self._brought)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        self._changed.set()
        if self._runner is not None:
            await self._runner.cleanup()

    # ── the protocol ──

    async def _status(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer agent-secret":
            return web.json_response({"error": "no"}, status=401)
        report = msgspec.json.decode(await request.read(), type=StatusReport)
        with self._condition:
            self.reports.append(report)
            self._condition.notify_all()
        again = self.samples_again and report.samples is not None and report.samples.earlier > 0
        return self._answer(
            StatusReply(
                server_token=self.server_token,
                known=self.known,
                move_to=self.move_to,
                samples_again=again,
                report_s=self.report_s,
            )
        )

    async def _assignment(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer agent-secret":
            return web.json_response({"error": "no"}, status=401)
        self.polls += 1
        return await self._held(request.query["instance_id"], int(request.query["have"]), float(request.query["wait"]))

    async def _brought(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer agent-secret":
            return web.json_response({"error": "no"}, status=401)
        poll = msgspec.json.decode(await request.read(), type=Poll)
        self.brought.append(poll)
        unheard, self.unheard = self.unheard, False
        return await self._held(poll.instance_id, poll.have, 0 if unheard else poll.wait, unheard=unheard)

    async def _held(self, instance: str, have: int, wait_s: float, *, unheard: bool = False) -> web.Response:
        deadline, report_s = self._loop.time() + min(wait_s, 20), self.report_s
        while self._version(instance) == have and self.known and report_s == self.report_s:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                break
            if self._runner is None or not self._runner.sites:
                break
        wanted = self.assignments.get(instance)
        return self._answer(
            AssignmentReply(
                server_token=self.server_token,
                known=self.known,
                assignment=wanted,
                report_s=self.report_s,
                unheard=unheard,
            )
        )

    def _version(self, instance: str) -> int:
        wanted = self.assignments.get(instance)
        return wanted.version if wanted else 0

    def _answer(self, reply: StatusReply | AssignmentReply) -> web.Response:
        if self.database_away:
            body = {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "not now", "server_token": self.server_token}
            return web.json_response(body, status=503)
        reply = msgspec.structs.replace(reply, servers=self.servers)
        return web.Response(body=msgspec.json.encode(reply), content_type="application/json")

    # ── for tests ──

    def assign(self, instance: str, wanted: Assignment | None) -> None:
        if wanted is None:
            self.assignments.pop(instance, None)
        else:
            self.assignments[instance] = wanted
        self._loop.call_soon_threadsafe(self._changed.set)

    def pace(self, seconds: float) -> None:
        """Wants reports so often from now on."""
        self.report_s = seconds
        self._loop.call_soon_threadsafe(self._changed.set)

    def forget(self) -> None:
        self.known = False
        self._loop.call_soon_threadsafe(self._changed.set)

    def status(self, instance: str, condition: Callable[[NodeStatus], bool]) -> NodeStatus:
        """The newest status that meets the condition, waiting for one if need be."""

        def newest() -> NodeStatus | None:
            mine = [report.status for report in self.reports if report.instance_id == instance]
            return mine[-1] if mine and condition(mine[-1]) else None

        with self._condition:
            found = self._condition.wait_for(newest, PATIENCE_S)
            if not found:
                mine = [report.status for report in self.reports if report.instance_id == instance]
                raise AssertionError(f"no such status within {PATIENCE_S:g} s; the last ones: {mine[-3:]}")
            return found

    def warm(self, instance: str, version: int = 1) -> NodeStatus:
        """The status of an instance that is nobody's and ready to be taken over, as `version` asked."""
        return self.status(instance, lambda status: bool(status.warm) and status.assignment_version == version)

    def phase(self, instance: str, phase: Phase) -> NodeStatus:
        return self.status(instance, lambda status: status.phase is phase)


class Instance:
    """One agent process with its directory."""

    def __init__(self, world: World, config: AgentConfig) -> None:
        self.world = world
        self.config = config
        self.id = config.instance_id
        self.directory = Path(config.instance_dir)
        self.process: Forked | subprocess.Popen[bytes] | None = None
        self.switchboard = -1

    @property
    def node(self) -> Path:
        return self.directory / "node"

    def start(self) -> Instance:
        self.directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        path = self.directory / "agent.json"
        path.write_bytes(msgspec.json.encode(self.config))
        path.chmod(0o600)
        arguments = ["--config", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        if self.switchboard >= 0:  # servers find such an agent by its command line
            self.process = subprocess.Popen(
                [sys.executable, "-m", "brickyard.agent", *arguments, "--switchboard", str(self.switchboard)],
                env=environment, cwd="/", pass_fds=(self.switchboard,),
            )  # fmt: skip
        else:
            self.process = forks.agents().start(
                "brickyard.agent.__main__:main", arguments, argv=["-m", *arguments], directory="/", environment=environment,
                descriptors={number: number for number in range(3)},
            )  # fmt: skip
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE_S)
        if (group := self.directory / "cgroup.json").exists():  # a killed agent's; its provider would do this
            msgspec.json.decode(group.read_bytes(), type=Group).remove()

    def report(self) -> StatusReport:
        return until(lambda: [each for each in self.world.server.reports if each.instance_id == self.id])[-1]

    def request(self, method: str, path: str, body: Any = None, *, token: str = SERVER_TOKEN) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - a loopback URL of our own
            parse(self.report().endpoint).url + path, data=data, method=method, headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S, context=pinning_context()) as answer:  # noqa: S310 - as above
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def begin(self, code: str) -> str:
        """Run Python code inside the node (the fake node host's commands). It may end the node: nobody waits for it."""
        command = f"c{time.monotonic_ns()}"
        self.request("POST", "/v1/contexts", {"context_id": "test", "language": "python"})
        status, answer = self.request(
            "POST", "/v1/contexts/test/commands", {"command_id": command, "language": "python", "command": textwrap.dedent(code)}
        )
        assert status == 200, answer
        return command

    def execute(self, code: str) -> str:
        """The same, to its end; what it printed."""
        command = self.begin(code)

        def finished() -> Any:
            state = self.request("GET", f"/v1/contexts/test/commands/{command}")[1]
            return state if state["status"] == "Finished" else None

        return str(until(finished, "the command's end")["results"]["data"])


class World:
    """A data directory, a server, and the instances that a test makes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data_dir = root / "data"
        self.cache_dir = root / "cache"
        trees = (self.data_dir / name for name in ("dbfs", "volumes", "workspace"))
        for path in (self.data_dir, *trees, self.cache_dir):
            path.mkdir(mode=0o700)
        self.server = FakeServer(self.data_dir)
        self.instances: list[Instance] = []
        self._runtime()

    def _runtime(self) -> None:
        home = self.cache_dir / "runtimes" / "fake"
        home.mkdir(parents=True)
        (home / "marker").write_text("a file of the runtime")
        manifest = RuntimeManifest(
            environment="fake", spark_version="0", scala_version="0", home=str(home), python=sys.executable, python_version="3",
            python_base=sys.base_prefix, spark_home=str(home), java_home="", java_real=sys.prefix, java_version="",
        )  # fmt: skip
        (home / "runtime.json").write_bytes(msgspec.json.encode(manifest))

    def instance(self, instance_id: str = "", **changes: Any) -> Instance:
        """One that is not started yet. Names are unique: control groups of tests that run side by side share a directory."""
        instance_id = instance_id or f"i-{secrets.token_hex(8)}"
        config = AgentConfig(
            instance_id=instance_id, agent_token="agent-secret", server_token=SERVER_TOKEN, server_url=self.server.url,
            server_file=str(self.server.file), instance_dir=str(self.data_dir / "instances" / instance_id),
            data_dir=str(self.data_dir), cache_dir=str(self.cache_dir), logs_dir=str(self.data_dir / "logs"),
            dbfs_dir=str(self.data_dir / "dbfs"), volumes_dir=str(self.data_dir / "volumes"),
            workspace_dir=str(self.data_dir / "workspace"), clusters_dir=str(self.data_dir / "clusters"),
            workspaces_dir=str(self.data_dir / "workspaces"),
            node_code_dir=str(FAKES), environments={"fake": "fake"},
        )  # fmt: skip
        made = Instance(self, msgspec.structs.replace(config, **changes))
        self.instances.append(made)
        return made

    def ready(self, instance: Instance, **changes: Any) -> NodeStatus:
        """Give it a node and wait until that is ready."""
        self.server.assign(instance.id, assignment(**changes))
        return self.server.phase(instance.id, Phase.READY)

    def close(self) -> None:
        for instance in self.instances:
            instance.end()
        self.server.stop()


@contextlib.contextmanager
def world(root: Path) -> Iterator[World]:
    made = World(root)
    made.server.start()
    try:
        yield made
    finally:
        made.close()


def assignment(version: int = 1, generation: int = 1, **changes: Any) -> Assignment:
    """A single-node cluster; conf keys that begin with `test.` are knobs of the fake node host."""
    values: dict[str, Any] = {
        "version": version, "generation": generation, "cluster_id": "0101-000000-abcdefgh", "role": Role.SINGLE,
        "runtime": "fake", "cores": 1, "memory_mb": 512, "secret": "spark-secret",
    }  # fmt: skip
    return Assignment(**{**values, **changes})


def preparation(version: int = 1, generation: int = 1, **changes: Any) -> Assignment:
    """For an instance that is nobody's, of the size of node that `assignment` asks for."""
    return assignment(version, generation, **{"role": Role.WARM, "cluster_id": "", "secret": "", **changes})
