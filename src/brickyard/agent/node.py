"""Making the node what its assignment says: does the steps that `converge.decide` names, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from brickyard.agent import cgroups, files, install, measure, sandbox
from brickyard.agent.config import AgentConfig
from brickyard.agent.converge import Current, Stage, Step, decide, size_of, why_cold
from brickyard.agent.host import HostError, HostGone, NodeHost, cut_failure
from brickyard.agent.log import LogFile
from brickyard.agent.memory import driver_heap_mb, heap_mb, java_options
from brickyard.agent.network import master_host
from brickyard.agent.networks import Networks
from brickyard.agent.pressure import node_memory_limit
from brickyard.agent.processes import sweep
from brickyard.agent.watch import Watched
from brickyard.domain.node import Assignment, Failure, NodeStatus, Phase, Role
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.lifecycle.runtimeuse import RuntimeUse

STOP_GRACE_S = 4.0
PREPARE_TIMEOUT_S = 300.0
RETIRE_TIMEOUT_S = 60.0
PULSE_S, PULSE_TIMEOUT_S = 2.0, 8.0  # between two questions whether Spark answers, and for an answer of the node host
SILENCE_S = 10.0  # shorter silences are not told: they are the rule on a busy machine
REVEAL_TIMEOUT_S = 20.0  # it takes some 30 ms
WARM_RETRY_S = (5.0, 300.0)  # between two attempts to make a warm node: first, and at most
STARVED_S = 30.0  # a node that fails so soon after one of its processes was ended for want of memory fails by that
DAEMONS_MB = 1024  # what our own processes on the node may use beyond the memory that its type offers
_WORDS = {Step.INSTALL: "preparing the runtime", Step.START: "starting the node's processes", Step.JOIN: "taking its role"}
_PROTOCOL_CODES = frozenset(
    {"NOT_FOUND", "LIMIT", "DEAD", "INVALID", "TIMEOUT", "INTERNAL", ""}
)  # say nothing about a cluster's end
_FROM_HOST = frozenset({Phase.PREPARING, Phase.STARTING, Phase.READY, Phase.RETIRING, Phase.RETIRED, Phase.FAILED})


class Node:
    """The node of one instance. Everything runs on the event loop; `on_change` is called after every change of `status`."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        probe: Callable[[], Awaitable[sandbox.Isolation]],
        networks: Networks,
        log: LogFile,
        on_change: Callable[[], None],
    ) -> None:
        self._config = config
        self._probe = probe
        self._networks = networks
        networks.on_end = self._cut_off
        self._log = log
        self._node_log = LogFile(config.directory / "node.log")
        self._on_change = on_change
        self._status = NodeStatus(host=config.node_host)
        self._current = Current()
        self._wanted: Assignment | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()  # set: nothing is wanted and nothing is there
        self._running: tuple[Step, asyncio.Task[None]] | None = None
        self._host: NodeHost | None = None
        self._killing: set[asyncio.Task[None]] = set()
        self._group = cgroups.Group()
        self._limits = cgroups.Limits(memory_mb=0, cores=0)
        self._starved = ("", 0.0)  # why one of the node's processes was ended, and when (monotonic)
        self._manifest: RuntimeManifest | None = None
        self._use = RuntimeUse(Path(config.cache_dir))
        self._cluster_id = ""
        self._cold_reason = ""  # of the generation that begins next
        self._deaf_s = 0.0  # for how long the node host itself has not answered
        self._warm_failures = 0  # in a row
        self._warm_after = 0.0  # time.monotonic(): the next attempt
        self._steps = {
            Step.RELEASE: self._release, Step.BEGIN: self._begin, Step.INSTALL: self._install, Step.START: self._start,
            Step.JOIN: self._join, Step.TELL_MASTER: self._tell_master, Step.RETIRE: self._retire,
            Step.WARM: self._warm, Step.COOL: self._cool, Step.TAKE: self._take,
        }  # fmt: skip

    @property
    def status(self) -> NodeStatus:
        return self._status

    @property
    def host(self) -> NodeHost | None:
        """The node host, when it has its role and lives."""
        return self._host if self._host is not None and self._host.alive and self._current.stage is Stage.JOINED else None

    # ── what the watch needs ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def watched(self) -> Watched | None:
        """The node, while its processes live."""
        if self._host is None or not self._host.pid or self._current.stage is Stage.ENDED:
            return None
        walled = not self._status.isolation.startswith("none")
        share = (self._wanted.memory_mb if self._wanted is not None else self._config.memory_mb) << 20
        shared = self._config.cluster_dir(self._cluster_id) if self._is_driver else None  # once, not by every worker as well
        return Watched(
            pid=self._host.pid, group=self._group, walled=walled, limits=self._limits, share=share, shared_dir=str(shared or "")
        )

    def end(self, code: str, message: str) -> None:
        """End what runs, as failed. `code` is what that is when it is a driver that fails."""
        if self.watched is None:
            return
        if self._current.generation == 0:
            self._warm_lost(message)
            return
        self._end_generation(cut_failure(code if self._is_driver else "INSTANCE_UNREACHABLE", message, self._tail()))
        self._give_up()

    def starved(self, message: str) -> None:
        """One of the processes is ended for want of memory. Should the node fail by that, this is why."""
        self._starved = (message, time.monotonic())
        self._say(message)

    def disk_is_low(self, used: int, limit: int) -> None:
        """Tell the cluster, once: the numbers are those of the first time."""
        if bool(limit) != bool(self._status.disk_limit):
            self._update(disk_used=used, disk_limit=limit)

    # ── what is wanted ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def want(self, wanted: Assignment | None) -> None:
        """Take a new assignment; it replaces the last one, acted upon or not."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._warm_after = 0.0  # whatever stood in the way may not stand in this one's
        self._idle.clear()
        self._wake.set()
        if self._running is not None and decide(self._current, wanted)[:1] != (self._running[0],):
            self._give_up()  # a stop must not wait for an installation

    async def run(self) -> None:
        """Converge for ever."""
        while True:
            self._wake.clear()
            await self._settle()
            if self._wanted is None and self._current == Current():
                self._idle.set()
            await self._wake.wait()

    async def watch(self) -> None:
        """See for ever whether Spark on the node answers, and tell since when it does not."""
        while True:
            await asyncio.sleep(PULSE_S)
            host = self.host
            if host is None or self._status.phase is not Phase.READY:
                self._deaf_s = 0.0
                continue
            silent_s = await self._silence(host)
            if host is not self.host:
                continue
            since_ms = _now_ms() - int(silent_s * 1000) if silent_s >= SILENCE_S else 0
            known_ms = self._status.silent_since_ms
            if bool(since_ms) != bool(known_ms):
                self._say(f"Spark has answered nothing for {silent_s:.0f} s" if since_ms else "Spark answers again")
            # A machine that slept, or a node that was stopped as a whole, has not been silent meanwhile: the moment moves.
            if not since_ms or not known_ms or since_ms - known_ms > SILENCE_S * 1000:
                self._update(silent_since_ms=since_ms)

    async def _silence(self, host: NodeHost) -> float:
        """For how long neither Spark nor, where it comes to that, the node host has answered."""
        began = time.monotonic()
        try:
            answer = await host.call("pulse", timeout_s=PULSE_TIMEOUT_S)
        except HostError as error:
            deaf = error.code == "TIMEOUT"  # anything else is an answer, or is seen to elsewhere
            self._deaf_s = self._deaf_s + PULSE_S + time.monotonic() - began if deaf else 0.0
            return self._deaf_s
        self._deaf_s = 0.0
        silent_s = answer.get("silent_s")
        return min(float(silent_s), 1e6) if isinstance(silent_s, int | float) and silent_s > 0 else 0.0

    async def close(self) -> None:
        """End the node and clean up after it, while `run` goes on. Returns when nothing is left."""
        self.want(None)
        await self._idle.wait()

    async def _settle(self) -> None:
        """Do steps until nothing is left to be done."""
        while True:
            if self._current.stage is Stage.ENDED and self._host is not None:
                await self._end_host(grace_s=0)
                await asyncio.to_thread(self._give_room_back)
            steps = decide(self._current, self._wanted)
            if not steps or (steps[0] is Step.WARM and time.monotonic() < self._warm_after):
                self._acknowledge()
                return
            await self._do(steps[0])

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _do(self, step: Step) -> None:
        self._acknowledge()
        task = asyncio.create_task(self._steps[step](), name=step)
        self._running = (step, task)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self._running = None
        if task.cancelled():
            self._say(f"gave up: {step.value}")
        elif (error := task.exception()) is not None:
            if not isinstance(error, HostError):
                text = f"the agent could not {step.value} the node: {type(error).__name__}: {error}"
                error = HostError("INTERNAL_ERROR", text)
            (self._warm_failed if step is Step.WARM else self._fail)(error)

    def _give_up(self) -> None:
        """Break off the running step; what it has begun is ended by the next. What cleans up is always brought to its end."""
        if self._running is not None and self._running[0] not in (Step.RELEASE, Step.COOL, Step.TAKE):
            self._running[1].cancel()

    def _acknowledge(self) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        if wanted.role is not Role.WARM:
            self._update(assignment_version=wanted.version)
        elif not self._current.generation:  # nothing is left of what a cluster left behind
            self._update(assignment_version=wanted.version, generation=wanted.generation)

    def _assignment(self) -> Assignment:
        """The assignment of the running step. A step runs only while there is one."""
        assert self._wanted is not None  # noqa: S101 - `want` cancels steps before they could see None
        return self._wanted

    async def _release(self) -> None:
        self._say(f"releasing the node of cluster {self._cluster_id} (generation {self._current.generation})")
        await self._end_host(grace_s=STOP_GRACE_S)
        await asyncio.to_thread(self._give_room_back)
        await asyncio.to_thread((self._config.directory / "node.json").unlink, missing_ok=True)
        self._current = Current()
        self._manifest = None
        self._use.end()
        self._cluster_id = ""
        kept = self._status
        self._status = NodeStatus(
            assignment_version=kept.assignment_version,
            generation=kept.generation,
            isolation=kept.isolation,
            network=kept.network,
            host=kept.host,
        )
        self._on_change()

    def _give_room_back(self) -> None:
        """On a thread: keep the logs, remove everything else. No process of the node lives any more.

        The rest goes first: on a full disk there is room for the logs only after that.
        """
        files.remove_tree(self._config.node_dir, keep="logs")
        files.keep_node_logs(
            self._config.directory, Path(self._config.logs_dir), instance_id=self._config.instance_id,
            cluster_id=self._cluster_id, generation=self._current.generation,
        )  # fmt: skip
        files.remove_tree(self._config.node_dir)

    async def _begin(self) -> None:
        wanted = self._assignment()
        reason, self._cold_reason = self._cold_reason or self._status.warm_error, ""
        self._adopt(wanted, Stage.EMPTY, phase=Phase.PREPARING, message="preparing the node", cold_reason=reason)
        await asyncio.to_thread(self._make_directories)
        await asyncio.to_thread(self._make_shared, wanted)
        await asyncio.to_thread(self._record, wanted)

    def _adopt(self, wanted: Assignment, stage: Stage, **status: Any) -> None:
        """From now on this is the assignment's generation."""
        self._current = Current(generation=wanted.generation, stage=stage)
        self._cluster_id = wanted.cluster_id
        self._node_log.clear()
        kept = {name: getattr(self._status, name) for name in ("assignment_version", "isolation", "network", "limits", "host")}
        fresh = NodeStatus(**kept, generation=wanted.generation, started_ms=_now_ms())
        self._update(**msgspec.structs.asdict(msgspec.structs.replace(fresh, **status)))
        self._say(f"node of cluster {wanted.cluster_id}: {wanted.role.value}, generation {wanted.generation}")

    def _make_directories(self) -> None:
        node = self._config.node_dir
        files.remove_tree(node)  # a predecessor may have been killed
        for path in (node, node / "work", node / "tmp", node / "home", node / "logs"):
            path.mkdir(mode=0o700)

    def _make_shared(self, wanted: Assignment) -> Path | None:
        """The cluster's own directory: there, and where a driver starts without what the last one has left for itself."""
        shared = self._config.cluster_dir(wanted.cluster_id)
        if shared is not None:
            shared.mkdir(mode=0o700, parents=True, exist_ok=True)
            if wanted.role is not Role.WORKER:
                files.make_empty(shared / "scratch")
        return shared

    def _record(self, wanted: Assignment) -> None:
        """Whose node this is, for the provider that cleans up after an agent that was killed."""
        record = msgspec.json.encode({"cluster_id": wanted.cluster_id, "generation": wanted.generation})
        files.write_atomic(self._config.directory / "node.json", record)

    async def _install(self) -> None:
        wanted = self._assignment()
        self._manifest = await self._runtime(wanted.runtime)
        self._advance(Stage.INSTALLED)

    async def _runtime(self, key: str) -> RuntimeManifest:
        """The runtime, which nobody removes from now on. Raises HostError."""
        await asyncio.to_thread(self._use.begin, self._config.environments.get(key) or key)
        return await install.ensure(self._config, key, progress=self._progress)

    async def _start(self) -> None:
        wanted, manifest = self._assignment(), self._manifest
        assert manifest is not None  # noqa: S101 - `decide` installs first
        self._progress(_WORDS[Step.START])
        host = await self._start_host(wanted, manifest)
        if (options := java_options(wanted)) is not None:
            prepared = self._settings(wanted.role) | {
                "heap_mb": heap_mb(wanted),
                "java_options": options,
                "env": wanted.spark_env_vars,
            }
            await host.call("prepare", timeout_s=PREPARE_TIMEOUT_S, **prepared)
        self._advance(Stage.STARTED)

    async def _start_host(self, wanted: Assignment, manifest: RuntimeManifest) -> NodeHost:
        """The node host behind its walls. Raises HostError."""
        config = self._config
        isolation = await self._probe()
        self._update(isolation=isolation.text)
        if config.isolation == "required" and isolation.kind == "none":
            raise HostError(
                "WORKSPACE_CONFIGURATION_ERROR",
                f"this workspace requires isolation, and this machine has none: {isolation.reason} "
                'Nothing was started. (Or set isolation = "auto" to run without.)',
            )
        self._starved = ("", 0.0)
        self._group = await asyncio.to_thread(self._limit, wanted)
        self._update(limits=self._group.text)
        host = NodeHost(on_status=self._hear, on_line=self._node_log.write, on_end=self._host_ended)
        self._host = host
        walls = sandbox.choose(config.isolation, isolation, python=config.python)
        view = await asyncio.to_thread(self._view, wanted, manifest)
        command = [manifest.python, str(Path(config.scripts_dir, "node_host.py"))]
        tmp = str(config.node_dir / "tmp") if walls.kind == "none" else "/tmp"  # noqa: S108 - the node's own, inside
        env = sandbox.environment(config.instance_id, node_dir=config.node_dir, tmp=tmp, source=os.environ)
        if config.dbfs_dir:  # where the workspace's files are, for code that must not care whether it is isolated
            env["DBFS_ROOT"] = config.dbfs_dir if walls.kind == "none" else "/dbfs"
        if walls.kind == "none":  # nothing but good manners keeps it from the devices of others
            env["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in config.gpus[: wanted.gpus])
        network = await self._networks.fresh()
        self._update(network=self._networks.text)
        fds = network.descriptors if network is not None else None
        await host.start(walls.command(command, view=view, cgroups=self._group.entries, network=fds), env, fds=fds or ())
        return host

    def _settings(self, role: str) -> dict[str, Any]:
        """What `prepare` and `become` both are told."""
        return {
            "manifest": self._manifest,
            "node_dir": str(self._config.node_dir),
            "role": role,
            "host": self._config.node_host,
        }

    def _cluster_dir(self) -> str:
        """Where the node sees what it shares with the other nodes of its cluster; "": nowhere."""
        shared = self._config.cluster_dir(self._cluster_id)
        if shared is None:
            return ""
        return str(shared) if self._status.isolation.startswith("none") else sandbox.CLUSTER

    def _limit(self, wanted: Assignment) -> cgroups.Group:
        memory = measure.machine_memory()
        asked = (wanted.memory_mb + DAEMONS_MB) << 20
        allowed = asked if memory is None else node_memory_limit(asked, memory.total)
        self._limits = cgroups.Limits(memory_mb=allowed >> 20, cores=wanted.cores)
        group = cgroups.create(self._config.instance_id, self._limits)
        record = self._config.directory / "cgroup.json"  # the provider removes the group when we cannot
        files.write_atomic(record, msgspec.json.encode(group))
        return group

    def _view(self, wanted: Assignment, manifest: RuntimeManifest) -> sandbox.View:
        config = self._config
        etc = config.directory / "etc"
        sandbox.write_etc(etc, hostname=config.instance_id, host=config.node_host, home=str(config.node_dir / "home"))
        java, copy = Path(manifest.java_real, "bin", "java"), config.directory / "java"
        if java.is_file():
            sandbox.write_unreadable(copy, java)
        return sandbox.View(
            hostname=config.instance_id,
            etc=str(etc),
            read_only=tuple(
                path for path in (manifest.home, manifest.python_base, manifest.java_real, config.scripts_dir) if path
            ),
            unreadable=((str(copy), str(java)),) if java.is_file() else (),
            interpreter=manifest.python,
            node_dir=config.instance_dir + "/node",
            dbfs_dir=config.dbfs_dir,
            cluster_dir=str(config.cluster_dir(wanted.cluster_id) or ""),
            hidden=tuple(path for path in (config.data_dir, config.instance_dir) if path),
            gpus=config.gpus[: wanted.gpus],
            shared_memory_mb=max(64, wanted.memory_mb // 2),
        )

    async def _join(self) -> None:
        wanted = self._assignment()
        if wanted.user_isolation and self._status.isolation.startswith("none"):
            raise HostError(
                "WORKSPACE_CONFIGURATION_ERROR",
                "data_security_mode USER_ISOLATION keeps users apart by the walls around a node, and there are none here: "
                f"{self._status.isolation}. Make isolation possible, or choose SINGLE_USER or NONE.",
            )
        self._update(phase=Phase.STARTING, message=_WORDS[Step.JOIN])
        await self._networks.join(wanted)
        await self._call("become", assignment=wanted, cluster_dir=self._cluster_dir(), **self._settings(wanted.role))
        self._current = msgspec.structs.replace(self._current, stage=Stage.JOINED, master_url=wanted.master_url)

    async def _tell_master(self) -> None:
        wanted = self._assignment()
        await self._networks.join(wanted)
        await self._call("master", master_url=wanted.master_url)
        self._current = msgspec.structs.replace(self._current, master_url=wanted.master_url)

    async def _retire(self) -> None:
        joined = self._current.stage is Stage.JOINED
        self._current = msgspec.structs.replace(self._current, retiring=True)
        self._update(phase=Phase.RETIRING if joined else Phase.RETIRED, message="leaving the cluster")
        if joined:
            await self._call("retire", timeout_s=RETIRE_TIMEOUT_S)

    async def _call(self, op: str, *, timeout_s: float = PREPARE_TIMEOUT_S, **fields: Any) -> None:
        if self._host is None:
            raise HostGone
        await self._host.call(op, timeout_s=timeout_s, **fields)

    # ── a node that is nobody's ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _warm(self) -> None:
        wanted = self._assignment()
        try:
            self._say(f"preparing a node for runtime {wanted.runtime}")
            await asyncio.to_thread(self._make_directories)
            self._manifest = await self._runtime(wanted.runtime)
            self._progress(_WORDS[Step.START])
            host = await self._start_host(wanted, self._manifest)
            asked = self._settings("") | {"heap_mb": driver_heap_mb(wanted.memory_mb), "cores": wanted.cores, "warm": True}
            await host.call("prepare", timeout_s=PREPARE_TIMEOUT_S, **asked)
        except BaseException:
            self._current = Current(prepared=size_of(wanted))  # what there is of it is to be ended
            raise
        self._current = Current(prepared=size_of(wanted), warm=True)
        self._warm_failures = 0
        self._update(warm=wanted.runtime, warm_error="", message="")

    async def _take(self) -> None:
        """The host, its JVM and its directories are there, and clean; only the cluster's own directory comes into sight."""
        wanted = self._assignment()
        if why := await self._reveal(wanted):
            await self._cool()
            self._cold_reason = f"the cluster's directory cannot be shown to a node that runs already: {why}"
            return
        self._adopt(wanted, Stage.STARTED, phase=Phase.STARTING, message=_WORDS[Step.JOIN], warm_start=True)
        await asyncio.to_thread(self._record, wanted)

    async def _reveal(self, wanted: Assignment) -> str:
        """Show the cluster's directory to the warm node. Returns why that cannot be done; "" when it is."""
        shared = await asyncio.to_thread(self._make_shared, wanted)
        if shared is None or self._host is None or self._status.isolation.startswith("none"):
            return ""
        command = sandbox.reveal(self._config.python, source=shared, target=sandbox.CLUSTER, launcher=self._host.pid)
        try:
            done = await asyncio.to_thread(
                subprocess.run, command, env={}, capture_output=True, timeout=REVEAL_TIMEOUT_S, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""

    async def _cool(self) -> None:
        if self._wanted is not None and self._wanted.role is not Role.WARM:
            self._cold_reason = why_cold(self._current, self._wanted)
        self._say("ending what was prepared")
        await self._end_host(grace_s=0)
        await asyncio.to_thread(files.remove_tree, self._config.node_dir)
        self._current = Current()
        self._manifest = None
        self._use.end()
        self._update(warm="", message="")

    def _warm_failed(self, error: HostError) -> None:
        """What was prepared is of no use, or could not be made. It is tried again, more and more rarely."""
        first, last = WARM_RETRY_S
        delay_s = min(last, first * 2.0 ** min(self._warm_failures, 10))
        self._warm_failures += 1
        self._warm_after = time.monotonic() + delay_s
        asyncio.get_running_loop().call_later(delay_s, self._wake.set)
        why = self._death().message if isinstance(error, HostGone) else str(error)
        self._say(f"the node could not be prepared: {why}")
        self._update(warm="", warm_error=why, message="")

    def _warm_lost(self, why: str) -> None:
        """A warm node has failed before anybody took it. While it is being made, its step fails by itself."""
        if self._current.warm:
            self._current = msgspec.structs.replace(self._current, warm=False)
            self._warm_failed(HostError("", why))
            self._wake.set()

    # ── what the host tells ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, changes: dict[str, Any]) -> None:
        """A status event. Only what fits this node's present is taken over."""
        phase = changes.get("phase")
        if self._current.stage is Stage.ENDED:
            return
        if self._current.generation == 0:
            if phase is Phase.FAILED:
                self._warm_lost((changes.get("failure") or Failure(code="", message="the node failed")).message)
            elif "message" in changes:
                self._progress(changes["message"])
            return
        if self._config.address and "master_url" in changes and master_host(changes["master_url"]) != self._config.address:
            del changes["master_url"]  # workers are connected to the node that it names: it must be this one
        if phase is not None and (phase not in _FROM_HOST or (self._current.retiring and phase in (Phase.STARTING, Phase.READY))):
            del changes["phase"]
        if changes.get("phase") is Phase.FAILED:
            failure = changes.get("failure") or Failure(code=self._death_code(), message="the node failed")
            if starved := self._want_of_memory():  # the host can only say that the process was killed
                failure = msgspec.structs.replace(failure, code=self._death_code(), message=starved)
            self._end_generation(failure if failure.log_tail else msgspec.structs.replace(failure, log_tail=self._tail()))
            self._give_up()
            return
        changes.pop("failure", None)
        if changes.get("cold_reason"):
            changes["warm_start"] = False
        self._update(**changes)

    def _cut_off(self) -> None:
        """The node's network has ended by itself, and with it all that the node's processes were connected to."""
        if self._host is not None:
            self._say("the node's network process has ended")
            task = asyncio.create_task(self._host.kill())
            self._killing.add(task)
            task.add_done_callback(self._killing.discard)

    def _host_ended(self, host: NodeHost) -> None:
        """The host is gone. If nobody asked it to go, that is the end of this generation."""
        if host is not self._host or self._current.stage is Stage.ENDED or self._status.phase is Phase.RETIRED:
            return
        if self._running is not None and self._running[0] in (Step.RELEASE, Step.COOL):
            return
        if self._current.generation == 0:
            self._warm_lost(self._death().message)
            return
        self._end_generation(self._death())
        self._give_up()

    def _death(self) -> Failure:
        code = self._host.exit_code if self._host is not None else None
        how = f"with code {code}" if code is None or code < 128 else f"by signal {code - 128}"
        message = self._want_of_memory() or f"the node's processes ended unexpectedly {how}"
        return cut_failure(self._death_code(), message, self._tail())

    def _want_of_memory(self) -> str:
        """Why, if that is what the node dies of; else empty."""
        why, at = self._starved
        if why and time.monotonic() - at < STARVED_S:
            return why
        if self._group.out_of_memory():
            return "the node ran out of memory: the kernel killed its processes. Choose a node type with more memory"
        return ""

    @property
    def _is_driver(self) -> bool:
        return self._wanted is not None and self._wanted.role in (Role.DRIVER, Role.SINGLE)

    def _death_code(self) -> str:
        driver = self._is_driver
        if driver and self._want_of_memory():
            return "DRIVER_OUT_OF_MEMORY"
        if self._status.phase in (Phase.PREPARING, Phase.STARTING):
            return "SPARK_STARTUP_FAILURE" if driver else "WORKER_SETUP_FAILURE"
        return "DRIVER_UNREACHABLE" if driver else "INSTANCE_UNREACHABLE"

    def _tail(self) -> str:
        return self._host.tail if self._host is not None else ""

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _fail(self, error: HostError) -> None:
        """A step could not be done. The generation is over; its processes are ended, its logs stay until it is released."""
        if self._current.stage is not Stage.ENDED:
            gone = isinstance(error, HostGone)
            code = self._death_code() if error.code in _PROTOCOL_CODES else error.code
            self._end_generation(self._death() if gone else cut_failure(code, str(error), self._tail()))

    def _end_generation(self, failure: Failure) -> None:
        self._say(f"the node failed: {failure.code}: {failure.message}")
        self._current = msgspec.structs.replace(self._current, stage=Stage.ENDED)
        self._update(phase=Phase.FAILED, failure=failure, message=failure.message, busy=False, alive_workers=())
        self._wake.set()  # `run` ends what is left of it

    async def _end_host(self, *, grace_s: float) -> None:
        host = self._host
        if host is not None:
            await (host.stop(grace_s=grace_s) if grace_s else host.kill())
        await asyncio.to_thread(self._end_leftovers)
        await self._networks.end()
        if self._host is host:
            self._host = None

    def _end_leftovers(self) -> None:
        """On a thread. Namespaces end with their first process; without them there may be something left."""
        if self._status.isolation.startswith("none"):
            for _ in range(50):
                if not sweep(self._config.instance_id):
                    break
                time.sleep(0.02)
        if self._group.directories and self._group.remove():
            self._group = cgroups.Group()
            with contextlib.suppress(OSError):
                (self._config.directory / "cgroup.json").unlink()

    # ── small things ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _advance(self, stage: Stage) -> None:
        self._current = msgspec.structs.replace(self._current, stage=stage)

    def _progress(self, message: str) -> None:
        self._update(message=message)

    def _update(self, **changes: Any) -> None:
        new = msgspec.structs.replace(self._status, **changes)
        if new != self._status:
            self._status = new
            self._on_change()

    def _say(self, line: str) -> None:
        self._log.write(line)
        self._node_log.write(line)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
