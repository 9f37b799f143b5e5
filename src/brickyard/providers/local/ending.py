"""How an instance ends: step by step, each of which may be repeated, by this server or by another one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

import msgspec

from brickyard.agent import files, processes
from brickyard.agent.cgroups import Group
from brickyard.agent.log import LogFile
from brickyard.domain.clock import Clock
from brickyard.providers.local.instances import Ending, Instances, Node, is_locked
from brickyard.providers.local.networks import LocalNetworks

KILL_AFTER_MS = 10_000  # from SIGTERM to SIGKILL: more than an agent needs to end its node in order
LINGER_S = 0.25  # how long one step stays to see the end of what ends at once
REMOVE_S = 2.0  # of one step: the next goes on
TURN_MS = 60_000  # after that nobody waits any more for a server that is ending the instance: it hangs


class Ender:
    """One per provider; `logs` is where what its nodes said is kept."""

    def __init__(self, *, instances: Instances, networks: LocalNetworks, logs: Path, clock: Clock) -> None:
        self._instances = instances
        self._networks = networks
        self._logs = logs
        self._clock = clock

    def end(self, instance_id: str, reason: str, *, linger_s: float = LINGER_S) -> None:
        """One step further to its end: signal, wait, kill, sweep, remove. Raises OSError."""
        directory = self._instances.root / instance_id
        try:
            turn = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            ending = self._mark(instance_id, directory, reason)
            if _taken(turn) or self._clock.now_ms() - ending.since_ms > TURN_MS:
                self._go_on(instance_id, directory, ending, linger_s=linger_s)
        finally:
            os.close(turn)

    def _go_on(self, instance_id: str, directory: Path, ending: Ending, *, linger_s: float) -> None:
        deadline = time.monotonic() + linger_s
        while self._signal(instance_id, directory, late=self._clock.now_ms() - ending.since_ms > KILL_AFTER_MS):
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        if processes.sweep(instance_id) or not _remove_group(directory):
            return
        files.remove_tree(directory / "node", keep="logs")  # on a full disk there is room for the logs only after that
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # it had no node, or its agent has cleaned up
            node = msgspec.json.decode((directory / "node.json").read_bytes(), type=Node)
            logs = self._logs
            files.keep_node_logs(directory, logs, instance_id=instance_id, cluster_id=node.cluster_id, generation=node.generation)
            (directory / "node.json").unlink()  # the next call need not keep them again
        with self._instances.lock:
            launched = self._instances.launched(instance_id)
        if launched is not None and launched.address:
            files.remove_tree(self._networks.ways(launched.address))
        # A node may leave more files than are removed in a moment, and other instances wait for us.
        with contextlib.suppress(TimeoutError):
            files.remove_tree(directory, limit_s=REMOVE_S)

    def _mark(self, instance_id: str, directory: Path, reason: str) -> Ending:
        """Record that the instance is to go, before anything is done about it. The first reason stays."""
        path = directory / "ending.json"
        if (known := self._marked(instance_id, path)) is not None:
            return known
        with self._instances.alone():  # `launch` looks for the mark
            if (known := self._marked(instance_id, path)) is not None:
                return known
            ending = Ending(reason=reason, since_ms=self._clock.now_ms())
            try:
                files.write_atomic(path, msgspec.json.encode(ending))
            except OSError:
                self._instances.unwritten[instance_id] = ending
            self._instances.unsignalled.add(instance_id)
        log = LogFile(directory / "agent.log")
        log.write(f"the server ends this instance: {reason}")
        log.close()
        with contextlib.suppress(OSError):
            (directory / "ending.signal").touch(mode=0o600)
        return ending

    def _marked(self, instance_id: str, path: Path) -> Ending | None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(path.read_bytes(), type=Ending)
        return self._instances.unwritten.get(instance_id)

    def _signal(self, instance_id: str, directory: Path, *, late: bool) -> bool:
        """Ask the agent to end, once, and make it, later. False: it does not live."""
        agent = self._agent(instance_id, directory)
        if agent is None:
            return is_locked(directory)  # it has just taken the lock, and will write its number next
        asked = directory / "ending.signal"
        if late:
            processes.send(agent, signal.SIGKILL)
        elif (asked.exists() or instance_id in self._instances.unsignalled) and processes.send(agent, signal.SIGTERM):
            asked.unlink(missing_ok=True)
            self._instances.unsignalled.discard(instance_id)
        return processes.alive(agent)

    def _agent(self, instance_id: str, directory: Path) -> processes.Process | None:
        """The living agent, by its own record, else as our child, which may be a second one that is about to end."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            agent = msgspec.json.decode((directory / "agent.pid").read_bytes(), type=processes.Process)
            if processes.alive(agent):
                return agent
        child = self._instances.children.get(instance_id)
        return processes.find(child.pid) if child is not None and child.poll() is None else None


def _taken(turn: int) -> bool:
    """Whether it is this server's turn to end the instance; False: another one is at it."""
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_group(directory: Path) -> bool:
    """Remove the control group of an agent that could not do so. False: not yet."""
    try:
        group = msgspec.json.decode((directory / "cgroup.json").read_bytes(), type=Group)
    except (OSError, msgspec.MsgspecError):
        return True
    return group.remove(patience_s=0.2)
