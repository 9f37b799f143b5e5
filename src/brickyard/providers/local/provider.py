"""The embedded provider: every instance is an agent process on this machine, with a directory of its own.

The directories are the record: `instances/<id>/instance.json` says what was launched, the lock on `agent.lock` says whether its
agent lives, `ending.json` says that it is to go. Nothing is kept in memory that a new server could not read from there, so a
server that is killed between any two steps leaves an instance that the next one sees, and ends or adopts.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from brickyard.agent import cgroups, files, processes
from brickyard.agent.cgroups import Group
from brickyard.agent.config import AgentConfig
from brickyard.agent.log import LogFile
from brickyard.config import Settings
from brickyard.domain.clock import Clock, SystemClock
from brickyard.domain.nodetypes import NodeType
from brickyard.providers import bootstrap, nodetypes
from brickyard.providers.base import Capacity, InvalidError, LaunchRequest, Observed, Provider, TransientError
from brickyard.providers.bootstrap import Machine
from brickyard.providers.capacity import Room, allowance, require, this_machine
from brickyard.providers.local.networks import LocalNetworks
from brickyard.runtime import NODE_CODE, catalogue
from brickyard.storage.directory import Storage

YOUNG_MS = 30_000  # an agent that an earlier server has started and that has not taken its lock for so long never will
KILL_AFTER_MS = 10_000  # from SIGTERM to SIGKILL: more than an agent needs to end its node in order
LINGER_S = 0.25  # how long `terminate` stays to see the end of what ends at once
REMOVE_S = 2.0  # of one call of `terminate`: the next goes on
CLOSE_PATIENCE_S = 20.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}")


class _Launched(msgspec.Struct, kw_only=True):
    """instance.json."""

    node_type: NodeType
    launched_ms: int
    gpus: tuple[int, ...] = ()
    tags: dict[str, str] = {}
    address: str = ""  # in a network of its own


class _Ending(msgspec.Struct, kw_only=True):
    """ending.json."""

    reason: str
    since_ms: int


class _Node(msgspec.Struct):
    """node.json of the agent: the node that the instance was last used as."""

    cluster_id: str
    generation: int


class LocalProvider(Provider):
    """See `providers.base.Provider`. `server_file` (server.json) must name the running server: agents call no other.

    Only one server uses a data directory, and so only one LocalProvider.
    """

    name = "local"
    ends_with_server = True
    where = "here"

    def __init__(
        self,
        *,
        settings: Settings,
        server_file: Path,
        node_types: Sequence[NodeType] | None = None,
        machine: Room | None = None,
        environments: Mapping[str, str] | None = None,
        node_code_dir: Path | None = None,
        python: str = sys.executable,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._server_file = server_file
        self._node_types = nodetypes.offered() if node_types is None else tuple(node_types)
        self._machine = machine or this_machine(gpus=nodetypes.gpus_here()[0])
        self._total = self._machine.times(cores=settings.cpu_overcommit, memory=settings.memory_overcommit)
        known = bootstrap.environments_of(catalogue.rows())
        self._environments = known if environments is None else dict(environments)
        self._node_code_dir = node_code_dir or NODE_CODE
        self._python = python
        self._clock = clock or SystemClock()
        self._storage = Storage(settings.storage_dir)
        self._root = self._storage.instances
        self._scope: list[str] | None = None  # not asked yet
        self._lock = threading.Lock()  # guards launches and the fields below
        self._launched: dict[str, _Launched] = {}  # what instance.json said: it never changes
        self._children: dict[str, subprocess.Popen[bytes]] = {}  # agents that this very process has started
        self._busy: set[str] = set()  # instances that a thread is terminating now
        # What a full disk did not take: it must not keep an instance from ending. A new server is told again what is to end.
        self._unwritten: dict[str, _Ending] = {}
        self._unsignalled: set[str] = set()
        self._networks = LocalNetworks(settings=settings, storage=self._storage, python=python)
        for path in (self._root, self._storage.dbfs, self._storage.logs.root):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for half_made in self._root.glob(".*"):
            files.remove_tree(half_made)

    def node_types(self) -> Sequence[NodeType]:
        return self._node_types

    def capacity(self) -> Capacity:
        with self._lock:
            left = self._left()
        return Capacity(
            cores_total=self._total.cores,
            cores_left=left.cores,
            memory_mb_total=self._total.memory_mb,
            memory_mb_left=left.memory_mb,
        )

    # ── launch ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def launch(self, request: LaunchRequest) -> None:
        """See Provider.launch."""
        if not _ID.fullmatch(request.instance_id):
            raise InvalidError(f"{request.instance_id!r} cannot be the name of an instance")
        directory = self._root / request.instance_id
        with self._lock:
            if self._is_ending(request.instance_id):
                raise InvalidError(f"instance {request.instance_id} was terminated and cannot be launched again")
            try:
                if not directory.exists():
                    require(request.node_type, machine=self._machine, total=self._total, left=self._left())
                    self._record(request, directory)
                if not self._was_started(request.instance_id, directory):
                    self._spawn(request.instance_id, directory)
            except OSError as error:
                raise TransientError(f"instance {request.instance_id} cannot be started here: {error}") from error

    def _record(self, request: LaunchRequest, directory: Path) -> None:
        """Make the directory with all that the agent needs, in one step."""
        gpus = self._free_gpus()[: request.node_type.num_gpus]
        taken = [each.address for each in map(self._read_launched, self._listed()) if each is not None]
        record = _Launched(
            node_type=request.node_type, launched_ms=self._clock.now_ms(), gpus=gpus, tags=request.tags,
            address=self._networks.address(request.instance_id, taken),
        )  # fmt: skip
        half_made = self._root / f".{request.instance_id}"
        files.remove_tree(half_made)
        half_made.mkdir(mode=0o700)
        files.write_atomic(half_made / bootstrap.CONFIG_FILE, bootstrap.encoded(self._config(request, directory, record)))
        files.write_atomic(half_made / "instance.json", msgspec.json.encode(record))
        half_made.rename(directory)
        self._launched[request.instance_id] = record

    def _config(self, request: LaunchRequest, directory: Path, record: _Launched) -> AgentConfig:
        settings = self._settings
        machine = Machine(
            instance_dir=directory,
            cache_dir=settings.cache_dir,
            logs_dir=self._storage.logs.root,
            data_dir=settings.data_dir,
            storage_dir=self._storage.root,
            dbfs_dir=self._storage.dbfs,
            clusters_dir=self._storage.clusters,
            node_code_dir=self._node_code_dir,
            python=self._python,
            server_file=self._server_file,
        )
        return bootstrap.agent_config(
            request, machine, settings,
            environments=self._environments,
            host=loopback_address(request.instance_id),
            gpus=record.gpus,
            node_disk=allowance(settings.node_disk_gb, self._root),
            **self._networks.settings(record.address),
        )  # fmt: skip

    def _was_started(self, instance_id: str, directory: Path) -> bool:
        """Whether an agent was started, as far as can be known. If in doubt it is started again: a second one ends at once."""
        child = self._children.get(instance_id)
        return (child is not None and child.poll() is None) or (directory / "agent.pid").exists() or _locked(directory)

    def _spawn(self, instance_id: str, directory: Path) -> None:
        """Start the agent in a session of its own: it outlives us."""
        if self._scope is None:
            self._scope = cgroups.scope()
        command = [*self._scope, *bootstrap.command(directory, python=self._python)]
        switchboard = self._networks.switchboard
        command += ["--switchboard", str(switchboard)] if switchboard >= 0 else []
        log = os.open(directory / "agent.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            self._children[instance_id] = subprocess.Popen(
                command, env=bootstrap.environment(os.environ), cwd="/", start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=(switchboard,) if switchboard >= 0 else (),
            )  # fmt: skip
        finally:
            os.close(log)

    def _left(self) -> Room:
        """What is left beside the instances that live. Those that are ending are as good as gone: a cluster that restarts
        must not be refused because of itself."""
        return self._total.without(Room.of(each.node_type, self._machine) for each in self._living())

    def _is_ending(self, instance_id: str) -> bool:
        return instance_id in self._unwritten or (self._root / instance_id / "ending.json").exists()

    def _free_gpus(self) -> tuple[int, ...]:
        taken = {gpu for each in self._living() for gpu in each.gpus}
        return tuple(gpu for gpu in range(self._machine.gpus) if gpu not in taken)

    def _living(self) -> list[_Launched]:
        found = []
        for instance_id in self._listed():
            launched = self._read_launched(instance_id)
            if launched is not None and not self._is_ending(instance_id) and self._alive(instance_id):
                found.append(launched)
        return found

    # ── observe ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def observe(self) -> Mapping[str, Observed]:
        """See Provider.observe. Costs some tens of microseconds an instance."""
        try:
            with self._lock:
                listed = self._listed()
                for instance_id in {*self._launched, *self._children, *self._unwritten, *self._unsignalled}:
                    if instance_id not in listed and instance_id not in self._busy:
                        self._forget(instance_id)
                return {each: Observed(instance_id=each, alive=self._alive(each)) for each in listed}
        except OSError as error:
            raise TransientError(f"the instances in {self._root} cannot be listed: {error.strerror}") from error

    def _listed(self) -> set[str]:
        return {name for name in os.listdir(self._root) if not name.startswith(".")}  # noqa: PTH208 - names are all we need

    def _alive(self, instance_id: str) -> bool:
        """Its agent holds its lock, or may still be on the way there."""
        directory = self._root / instance_id
        child = self._children.get(instance_id)
        if child is not None and child.poll() is None:  # asking also reaps it
            return True
        if _locked(directory):
            return True
        launched = self._read_launched(instance_id)
        if child is not None or launched is None or (directory / "agent.pid").exists():
            return False
        return 0 <= self._clock.now_ms() - launched.launched_ms < YOUNG_MS

    def _read_launched(self, instance_id: str) -> _Launched | None:
        if instance_id not in self._launched:
            try:
                data = (self._root / instance_id / "instance.json").read_bytes()
                self._launched[instance_id] = msgspec.json.decode(data, type=_Launched)
            except (OSError, msgspec.MsgspecError):
                return None
        return self._launched[instance_id]

    def _forget(self, instance_id: str) -> None:
        self._launched.pop(instance_id, None)
        self._unwritten.pop(instance_id, None)
        self._unsignalled.discard(instance_id)
        child = self._children.get(instance_id)
        if child is None or child.poll() is not None:
            self._children.pop(instance_id, None)

    # ── terminate ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def terminate(self, instance_id: str, *, reason: str) -> None:
        """See Provider.terminate. Every call goes on where the last one stopped: signal, wait, kill, sweep, remove."""
        if not _ID.fullmatch(instance_id):
            return
        with self._lock:
            if instance_id in self._busy:
                return
            self._busy.add(instance_id)
        try:
            self._end(instance_id, reason, linger_s=LINGER_S)
        except OSError as error:
            raise TransientError(f"instance {instance_id} cannot be removed yet: {error}") from error
        finally:
            with self._lock:
                self._busy.discard(instance_id)

    def _end(self, instance_id: str, reason: str, *, linger_s: float) -> None:
        directory = self._root / instance_id
        if not directory.is_dir():
            return
        ending = self._mark(instance_id, directory, reason)
        deadline = time.monotonic() + linger_s
        while self._signal(instance_id, directory, late=self._clock.now_ms() - ending.since_ms > KILL_AFTER_MS):
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        if processes.sweep(instance_id) or not _remove_group(directory):
            return
        files.remove_tree(directory / "node", keep="logs")  # on a full disk there is room for the logs only after that
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # it had no node, or its agent has cleaned up
            node = msgspec.json.decode((directory / "node.json").read_bytes(), type=_Node)
            logs = self._storage.logs.root
            files.keep_node_logs(directory, logs, instance_id=instance_id, cluster_id=node.cluster_id, generation=node.generation)
            (directory / "node.json").unlink()  # the next call need not keep them again
        with self._lock:
            launched = self._read_launched(instance_id)
        if launched is not None and launched.address:
            files.remove_tree(self._networks.ways(launched.address))
        # A node may leave more files than are removed in a moment, and other instances wait for us.
        with contextlib.suppress(TimeoutError):
            files.remove_tree(directory, limit_s=REMOVE_S)

    def _mark(self, instance_id: str, directory: Path, reason: str) -> _Ending:
        """Record that the instance is to go, before anything is done about it. The first reason stays."""
        path = directory / "ending.json"
        with self._lock:  # `launch` looks for the mark
            if (known := self._unwritten.get(instance_id)) is not None:
                return known
            try:
                return msgspec.json.decode(path.read_bytes(), type=_Ending)
            except (OSError, msgspec.MsgspecError):
                ending = _Ending(reason=reason, since_ms=self._clock.now_ms())
            try:
                files.write_atomic(path, msgspec.json.encode(ending))
            except OSError:
                self._unwritten[instance_id] = ending
            self._unsignalled.add(instance_id)
        log = LogFile(directory / "agent.log")
        log.write(f"the server ends this instance: {reason}")
        log.close()
        with contextlib.suppress(OSError):
            (directory / "ending.signal").touch(mode=0o600)
        return ending

    def _signal(self, instance_id: str, directory: Path, *, late: bool) -> bool:
        """Ask the agent to end, once, and make it, later. False: it does not live."""
        agent = self._agent(instance_id, directory)
        if agent is None:
            return _locked(directory)  # it has just taken the lock, and will write its number next
        asked = directory / "ending.signal"
        if late:
            processes.send(agent, signal.SIGKILL)
        elif (asked.exists() or instance_id in self._unsignalled) and processes.send(agent, signal.SIGTERM):
            asked.unlink(missing_ok=True)
            self._unsignalled.discard(instance_id)
        return processes.alive(agent)

    def _agent(self, instance_id: str, directory: Path) -> processes.Process | None:
        """The living agent, by its own record, else as our child."""
        child = self._children.get(instance_id)
        if child is not None and child.poll() is None:
            return processes.find(child.pid)
        try:
            agent = msgspec.json.decode((directory / "agent.pid").read_bytes(), type=processes.Process)
        except (OSError, msgspec.MsgspecError):
            return None
        return agent if processes.alive(agent) else None

    def close(self, *, keep_nodes: bool) -> None:
        """See Provider.close. Ends all instances at once and returns when they are gone, or after CLOSE_PATIENCE_S."""
        if keep_nodes:
            return
        deadline = time.monotonic() + CLOSE_PATIENCE_S
        while (left := self._listed()) and time.monotonic() < deadline:
            for instance_id in left:
                with contextlib.suppress(OSError):
                    self._end(instance_id, "the server is stopping", linger_s=0)
            time.sleep(0.02)


def _locked(directory: Path) -> bool:
    """Whether an agent holds the instance. Looking takes the lock for a moment, which agents are patient about."""
    try:
        fd = os.open(directory / "agent.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _remove_group(directory: Path) -> bool:
    """Remove the control group of an agent that could not do so. False: not yet."""
    try:
        group = msgspec.json.decode((directory / "cgroup.json").read_bytes(), type=Group)
    except (OSError, msgspec.MsgspecError):
        return True
    return group.remove(patience_s=0.2)


def loopback_address(instance_id: str) -> str:
    """A loopback address of the instance's own, the same each time: 127.64.0.1 to 127.127.255.254.

    Spark takes an address for a machine. With one for all nodes, a worker that leaves or dies would take what all the others have
    shuffled with it. Only Linux answers at all of 127.0.0.0/8; elsewhere nodes share 127.0.0.1.
    """
    if sys.platform != "linux":
        return "127.0.0.1"
    second, third, last = hashlib.blake2b(instance_id.encode(), digest_size=3).digest()
    return f"127.{64 + second % 64}.{third}.{1 + last % 254}"
