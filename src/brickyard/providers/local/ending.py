"""Ends instances step by step. Each step may be repeated, by this server or another one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec

from brickyard.domain.clock import Clock
from brickyard.logs.bounded import LogFile
from brickyard.logs.keep import NodeRecord, keep_node_logs
from brickyard.machine import files, locks, processes
from brickyard.machine.cgroups import Group
from brickyard.providers.local.instances import Ending, Instances, is_locked
from brickyard.providers.local.networks import LocalNetworks

_decode_node_record = msgspec.json.Decoder(NodeRecord).decode
_decode_ending = msgspec.json.Decoder(Ending).decode
_decode_process = msgspec.json.Decoder(processes.Process).decode
_decode_group = msgspec.json.Decoder(Group).decode


KILL_AFTER_MS = 10_000  # from SIGTERM to SIGKILL: more than an agent needs to end its node cleanly
LINGER_S = 0.25  # how long one step waits for what ends at once
REMOVE_S = 2.0  # per step: the next one continues
TURN_MS = 60_000  # after this time, a server that is still ending the instance counts as hung, and others no longer wait for it


class Ender:
    """One per provider; `logs` is where its nodes' logs are kept. `log_as_json`: agents' logs are JSON."""

    def __init__(
        self, *, instances: Instances, networks: LocalNetworks, logs: Path, clock: Clock, log_as_json: bool = False
    ) -> None:
        self._log_as_json = log_as_json
        self._instances = instances
        self._networks = networks
        self._logs = logs
        self._clock = clock

    def end(self, instance_id: str, reason: str, *, linger_s: float = LINGER_S) -> None:
        """Takes one step towards the instance's end: signal, wait, kill, sweep, remove. Raises OSError."""
        directory = self._instances.root / instance_id
        try:
            turn = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            ending = self._mark(instance_id, directory, reason)
            if locks.take(turn) or self._clock.now_ms() - ending.since_ms > TURN_MS:
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
        files.remove_tree(directory / "node", keep="logs")  # first: on a full disk this makes room for the logs
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # it had no node, or its agent has cleaned up
            node = _decode_node_record((directory / "node.json").read_bytes())
            keep_node_logs(directory, self._logs, instance_id=instance_id, node=node)
            (directory / "node.json").unlink()  # so that the next call does not keep the logs again
        with self._instances.lock:
            launched = self._instances.launched(instance_id)
        if launched is not None and launched.address:
            files.remove_tree(self._networks.ways(launched.address))
        # A node may leave more files than can be removed quickly, and other instances are waiting.
        with contextlib.suppress(TimeoutError):
            files.remove_tree(directory, limit_s=REMOVE_S)

    def _mark(self, instance_id: str, directory: Path, reason: str) -> Ending:
        """Records that the instance is to end, before anything is done about it. The first reason stays."""
        path = directory / "ending.json"
        if (known := self._marked(instance_id, path)) is not None:
            return known
        with self._instances.alone():  # `launch` checks for the mark
            if (known := self._marked(instance_id, path)) is not None:
                return known
            ending = Ending(reason=reason, since_ms=self._clock.now_ms())
            try:
                files.write_atomic(path, msgspec.json.encode(ending))
            except OSError:
                self._instances.unwritten[instance_id] = ending
            self._instances.unsignalled.add(instance_id)
        log = LogFile(directory / "agent.log", as_json=self._log_as_json)
        log.write(f"the server ends this instance: {reason}")
        log.close()
        with contextlib.suppress(OSError):
            (directory / "ending.signal").touch(mode=0o600)
        return ending

    def _marked(self, instance_id: str, path: Path) -> Ending | None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return _decode_ending(path.read_bytes())
        return self._instances.unwritten.get(instance_id)

    def _signal(self, instance_id: str, directory: Path, *, late: bool) -> bool:
        """Asks the agent to end, once; kills it when it is late. Returns False if it is not alive."""
        agent = self._agent(instance_id, directory)
        if agent is None:
            return is_locked(directory)  # it has just taken the lock, and has not written its pid yet
        asked = directory / "ending.signal"
        if late:
            processes.send(agent, signal.SIGKILL)
        elif (asked.exists() or instance_id in self._instances.unsignalled) and processes.send(agent, signal.SIGTERM):
            asked.unlink(missing_ok=True)
            self._instances.unsignalled.discard(instance_id)
        return processes.alive(agent)

    def _agent(self, instance_id: str, directory: Path) -> processes.Process | None:
        """The living agent, from its own record or else our child process, which may be a second one that is about to end."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            agent = _decode_process((directory / "agent.pid").read_bytes())
            if processes.alive(agent):
                return agent
        child = self._instances.children.get(instance_id)
        return processes.find(child.pid) if child is not None and child.poll() is None else None


def _remove_group(directory: Path) -> bool:
    """Removes the control group of an agent that could not do so. False: not yet possible."""
    try:
        group = _decode_group((directory / "cgroup.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return True
    return group.remove(patience_s=0.2)
