"""The state of an instance's node, and what steps may do with it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any, cast

import msgspec

from brickyard.agent.catalog.metastore import Metastore
from brickyard.agent.clock import now_ms
from brickyard.agent.config import AgentConfig
from brickyard.agent.contexts import Contexts
from brickyard.agent.converge import Current, Stage
from brickyard.agent.host import HostError, HostGone, HostListener, NodeHost, cut_failure
from brickyard.agent.networks import Networks
from brickyard.agent.owner import UNHURRIED_S, NodeOwner
from brickyard.agent.shortages import Shortages
from brickyard.agent.watching.meter import Watched
from brickyard.agent.watching.sampling import Sampled
from brickyard.domain.background import BackgroundTasks
from brickyard.domain.node import (
    Assignment,
    Failure,
    NodeStatus,
    Phase,
    Role,
)
from brickyard.domain.redaction import Redactor
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.domain.samples import NodeAbout
from brickyard.domain.scripts import ScriptResult, ScriptsReport, ScriptStatus
from brickyard.domain.variables import BadReference, expanded
from brickyard.logs.bounded import LogFile
from brickyard.logs.delivery import Passes
from brickyard.logs.keep import NodeRecord
from brickyard.machine import cgroups, files, linux
from brickyard.machine.processes import sweep
from brickyard.runtime.inuse import RuntimeUse
from brickyard.runtime.node.documents import ManifestDocument
from brickyard.runtime.starting import Starting
from brickyard.sandbox import launcher

FOR_PEOPLE = ("message", "isolation", "limits", "network")  # fields of the status that decide nothing
_ON_THE_WAY = (Phase.PREPARING, Phase.STARTING)


class NodeState:
    """Everything runs on the event loop."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        owner: NodeOwner,
        listener: HostListener,
        networks: Networks,
        log: LogFile,
    ) -> None:
        """`listener` hears the node's hosts."""
        self.config = config
        self.owner = owner
        self.networks = networks
        self.log = log
        self._listener = listener
        self.node_log = LogFile(config.directory / "node.log", as_json=config.log_format == "json")
        self.status = NodeStatus(host=config.node_host)
        self.current = Current()
        self.wanted: Assignment | None = None
        self.host: NodeHost | None = None
        self.ending = False  # the node host is being ended, so its end is expected
        self.metastore = Metastore(Path(config.metastore_dir)) if config.has_metastore else None
        self.group = cgroups.Group()
        self.limits = cgroups.Limits(memory_mb=0, cores=0)
        self.walls: launcher.Sandbox = launcher.Plain(python=config.python)  # the node host's
        self.manifest: RuntimeManifest | None = None
        self.environment: dict[str, str] = {}  # the node host's
        self.use = RuntimeUse(Path(config.cache_dir))
        self.starting = Starting(Path(config.cache_dir))
        self.working = False  # a step runs
        self.cluster_id = ""
        self.role: Role | None = None  # in that cluster
        self.cold_reason = ""  # for the generation that begins next
        self._logs: files.Anchor | None = None
        self._hidden: set[str] = set()
        self._record: NodeRecord | None = None  # as in node.json
        self.deliveries = Passes()
        self.delivery_env: dict[str, str] = {}  # with the credentials for an object store to which logs are delivered
        self.redactor = Redactor()  # hides the secrets of the current generation, and those that its contexts have read
        self.contexts = Contexts(instance_id=config.instance_id, hider=self)
        self.numbers: dict[str, Any] = {}  # what the node host last said of Spark; not trusted
        self.background: dict[Any, asyncio.Task[Any]] = {}  # what a step has begun, and goes on when the step is given up
        self.shortages = Shortages()
        self._unhurried: asyncio.TimerHandle | None = None  # tells the owner what has changed since it was last told
        self._killing = BackgroundTasks()

    @property
    def assignment(self) -> Assignment:
        """The assignment of the running step. A step runs only while there is one."""
        assert self.wanted is not None  # noqa: S101 - `Node.want` cancels steps before they could see None
        return self.wanted

    @property
    def manifest_document(self) -> ManifestDocument:
        """The manifest for the node host. Raises HostGone without a runtime."""
        if self.manifest is None:
            raise HostGone
        return cast(ManifestDocument, msgspec.to_builtins(self.manifest))  # tests/node/test_documents.py compares them

    @property
    def variables(self) -> dict[str, str]:
        """The cluster's variables as programs of this node have them. Raises HostError."""
        try:
            return expanded(self.assignment.spark_env_vars, self.environment)
        except BadReference as error:
            raise HostError("INVALID_ARGUMENT", f"spark_env_vars cannot be used on this node: {error}.") from error

    @property
    def is_driver(self) -> bool:
        return self.wanted is not None and self.wanted.role in (Role.DRIVER, Role.SINGLE)

    @property
    def walled(self) -> bool:
        return not self.status.isolation.startswith("none")

    @property
    def joined_host(self) -> NodeHost | None:
        """The node host, if it is alive and has its role. It may say READY before it answers the step that gives it the role."""
        joined = self.current.stage is Stage.JOINED or self.status.phase is Phase.READY
        return self.host if self.host is not None and self.host.alive and joined else None

    @property
    def watched(self) -> Watched | None:
        """The node, while its processes are alive."""
        if self.host is None or not self.host.pid or self.current.stage is Stage.ENDED:
            return None
        share = (self.wanted.memory_mb if self.wanted is not None else self.config.memory_mb) << 20
        mine = self.cluster_id if self.is_driver else ""  # once, not for every worker as well
        shared = [str(each) for each in (self.config.cluster_dir(mine), self.config.workspace_of(mine)) if each is not None]
        return Watched(
            pid=self.host.pid,
            group=self.group,
            walled=self.walled,
            limits=self.limits,
            share=share,
            shared_dirs=tuple(shared),
            workspace_dir=str(self.config.workspace_of(mine) or ""),
            workspace_limit=self.wanted.workspace_bytes if self.wanted is not None and mine else 0,
        )

    @property
    def sampled(self) -> Sampled | None:
        """The node, while it works for a cluster."""
        watched, wanted = self.watched, self.wanted
        if watched is None or wanted is None or wanted.role is Role.WARM or wanted.generation != self.current.generation:
            return None
        about = NodeAbout(
            role=wanted.role.value, node_type_id=wanted.node_type_id, cores=wanted.cores, memory_mb=wanted.memory_mb
        )
        return Sampled(
            watched=watched,
            cluster_id=wanted.cluster_id,
            generation=wanted.generation,
            about=about,
            load=self.status.load if self.is_driver else None,
            numbers=self.numbers,
            gpus=self.config.gpu_uuids[: wanted.gpus],
        )

    # ── status and logs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def advance(self, stage: Stage) -> None:
        self.current = msgspec.structs.replace(self.current, stage=stage)

    def update(self, **changes: Any) -> None:
        self.replace_status(msgspec.structs.replace(self.status, **changes))

    def replace_status(self, status: NodeStatus) -> None:
        """A report costs a server a transaction, so what is only for people waits for other changes to come along."""
        before, self.status = self.status, status
        self.show_starting()
        told = {name: getattr(before, name) for name in FOR_PEOPLE}
        if msgspec.structs.replace(status, **told) != before:
            self._tell()
        elif status != before:
            self._tell_soon()

    def show_starting(self) -> None:
        """Tells background work on this machine whether the node needs it now."""
        self.starting.show(self.working or self.status.phase in _ON_THE_WAY)

    def update_unhurried(self, **changes: Any) -> None:
        """Changes what nothing waits for, whatever it is."""
        before, self.status = self.status, msgspec.structs.replace(self.status, **changes)
        if self.status != before:
            self._tell_soon()

    def _tell_soon(self) -> None:
        if self._unhurried is None:
            self._unhurried = asyncio.get_running_loop().call_later(UNHURRIED_S, self._tell)

    def _tell(self) -> None:
        if self._unhurried is not None:
            self._unhurried.cancel()
            self._unhurried = None
        self.owner.status_changed()

    def progress(self, message: str) -> None:
        self.update(message=message)

    def say(self, line: str) -> None:
        self.log.write(line)
        self.node_log.write(line)

    def adopt(self, wanted: Assignment, stage: Stage, **status: Any) -> None:
        """Makes the assignment's generation the current one."""
        self.current = Current(generation=wanted.generation, stage=stage)
        self.cluster_id, self.role = wanted.cluster_id, wanted.role
        self._hidden = set(wanted.redact)
        self.redactor = Redactor(self._hidden)
        self.contexts = Contexts(instance_id=self.config.instance_id, hider=self, given=wanted.redact)
        self.numbers, self.background = {}, {}
        self.node_log.clear()
        kept = {
            name: getattr(self.status, name)
            for name in ("assignment_version", "message", "isolation", "network", "limits", "host", "leaving")
        }
        fresh = NodeStatus(**kept, generation=wanted.generation, started_ms=now_ms())
        self.replace_status(msgspec.structs.replace(fresh, **status))
        self.say(f"node of cluster {wanted.cluster_id}: {wanted.role.value}, generation {wanted.generation}")

    def hide(self, secret: str, sealed: str) -> None:
        """Hides one more value in everything that leaves the node, also if the agent is killed from now on."""
        self._hidden.add(secret)
        self.redactor = Redactor(self._hidden)
        if sealed and self._record is not None:
            try:
                self.record(msgspec.structs.replace(self._record, sealed=(*self._record.sealed, sealed)))
            except OSError as error:  # a full disk must not keep anybody from a secret
                self.say(f"a secret that was read would not be hidden in the logs if the agent were killed: {error}")

    def record(self, record: NodeRecord) -> None:
        """Records whose node this is, for the provider that cleans up after an agent that was killed. Raises OSError."""
        files.write_atomic(self.config.directory / "node.json", msgspec.json.encode(record))
        self._record = record

    # ── the node host ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def new_host(self) -> NodeHost:
        """Makes the node host that is started next."""
        self.host = host = NodeHost(self._listener)
        return host

    def cut_off(self) -> None:
        """The node's network has ended, and all connections of the node's processes with it."""
        if self.host is not None:
            self.say("the node's network process has ended")
            self._killing.start(self.host.kill())

    async def call(self, op: str, **fields: Any) -> None:
        if self.host is None:
            raise HostGone
        await self.host.call(op, **fields)

    async def end_host(self, *, grace_s: float) -> None:
        """Ends all of the node's processes, and its network."""
        host, self.ending = self.host, True
        try:
            if host is not None:
                await (host.stop(grace_s=grace_s) if grace_s else host.kill())
            await asyncio.to_thread(self._end_leftovers)
            if self.metastore is not None:
                await asyncio.to_thread(self.metastore.write_locks.end, host)
            await self.networks.end()
            if self.host is host:
                self.host = None
        finally:
            self.ending = False

    def _end_leftovers(self) -> None:
        """Runs on a thread. Namespaces end with their first process; without them, processes may be left."""
        if not self.walled:
            for _ in range(50):
                if not sweep(self.config.instance_id):
                    break
                time.sleep(0.02)
        if self.group.directories and self.group.remove():
            self.group = cgroups.Group()
            with contextlib.suppress(OSError):
                (self.config.directory / "cgroup.json").unlink()

    def hold_logs(self) -> None:
        """Holds on to the new directory of logs: the node's programs may move it, and other logs than theirs are in it."""
        if self._logs is not None:
            self._logs.close()
        self._logs = files.Anchor(self.config.node_dir / "logs")

    def restore_logs(self) -> None:
        """Finds the logs again where a program has moved them. None is alive any more."""
        if self._logs is not None:
            with contextlib.suppress(OSError):  # what is in its place is kept instead
                self._logs.restore()

    # ── init scripts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def running_script(self) -> int | None:
        """The number of the init script that runs now."""
        report = self.status.scripts
        scripts = self.wanted.init_scripts if self.wanted is not None else ()
        return len(report.results) if report is not None and report.running and len(report.results) < len(scripts) else None

    def close_scripts(self, result: ScriptResult, number: int) -> None:
        """Reports that a script has failed, and that those after it do not run."""
        report = self.status.scripts or ScriptsReport()
        rest = ScriptResult(status=ScriptStatus.NOT_EXECUTED)
        after = len(self.assignment.init_scripts) - number - 1
        before = [*report.results[:number], *[rest] * (number - len(report.results))]
        self.update(scripts=ScriptsReport(results=(*before, result, *[rest] * after)))

    def scripts_over(self, why: str) -> None:
        """The node has failed: whatever init script was running has ended with it."""
        if (number := self.running_script) is not None:
            self.close_scripts(ScriptResult(status=ScriptStatus.FAILED_EXECUTION, message=why), number)

    # ── failures ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def want_of_processes(self) -> str:
        """The reason, if the node's own processes have lately been refused more; otherwise ""."""
        return self.shortages.of_processes(self.group, self.limits)

    @property
    def want_of_memory(self) -> str:
        """The reason, if the node dies for lack of memory; otherwise ""."""
        return self.shortages.of_memory(self.group).reason

    @property
    def death_code(self) -> str:
        """The failure code if the node dies now."""
        driver = self.is_driver
        if (script := self.running_script) is not None and not self._never_ran:
            return self.assignment.init_scripts[script].failure
        if driver and (want := self.shortages.of_memory(self.group)).reason:
            return want.code
        if self.status.phase in (Phase.PREPARING, Phase.STARTING):
            return "SPARK_STARTUP_FAILURE" if driver else "WORKER_SETUP_FAILURE"
        return "DRIVER_UNREACHABLE" if driver else "INSTANCE_UNREACHABLE"

    @property
    def _never_ran(self) -> bool:
        """Whether the launcher found that it could not set the node up; it says why in its last line. The step that starts it
        does not wait for that, so a script may seem to run."""
        return self.host is not None and self.host.exit_code == linux.FAILED

    def death(self) -> Failure:
        """The failure of a node whose host has ended."""
        code = self.host.exit_code if self.host is not None else None
        how = f"with code {code}" if code is None or code < 128 else f"by signal {code - 128}"
        want_of_memory = self.want_of_memory
        message = want_of_memory or f"the node's processes ended unexpectedly {how}"
        if not want_of_memory and (want := self.want_of_processes):
            message = f"{message}: {want}"
        if self._never_ran:
            message = f"the node could not be set up: {self.tail.rpartition(chr(10))[2]}"
        elif (script := self.running_script) is not None:
            message += f" while {script_said(self.assignment, script)} ran"
        return cut_failure(self.death_code, message, "" if want_of_memory else self.tail)  # a log knows nothing of SIGKILL

    @property
    def tail(self) -> str:
        return self.host.tail if self.host is not None else ""


def script_said(wanted: Assignment, number: int) -> str:
    """Names an init script, for people."""
    return f"init script {number + 1} of {len(wanted.init_scripts)}, {wanted.init_scripts[number].address},"
