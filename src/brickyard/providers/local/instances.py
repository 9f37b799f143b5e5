"""The instances of a storage, read from their directories, for all servers that share it.

The directories are the only record: `instance.json` says what was launched, the lock on `agent.lock` whether the agent is alive,
and `ending.json` that the instance is to end. Memory holds only what never changes or what only this process can know.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from brickyard.domain.clock import Clock
from brickyard.domain.nodetypes import NodeType
from brickyard.machine import files, locks
from brickyard.storage.directory import Storage

YOUNG_MS = 30_000  # an agent started by another server that has not taken its lock by this age never will
LOCK_PATIENCE_S = 30.0  # for another server, which may be making this machine's first network


class Launched(msgspec.Struct, kw_only=True):
    """instance.json."""

    node_type: NodeType
    launched_ms: int
    gpus: tuple[int, ...] = ()  # numbers of their device nodes
    tags: dict[str, str] = {}
    address: str = ""  # if it has a private network


_decode_launched = msgspec.json.Decoder(Launched).decode


class Ending(msgspec.Struct, kw_only=True):
    """ending.json."""

    reason: str
    since_ms: int


class Instances:
    """One per provider. `lock` guards the fields; hold it, or `alone`, for methods that look at more than one instance."""

    def __init__(self, *, storage: Storage, clock: Clock) -> None:
        self.root = storage.instances
        self.lock = threading.Lock()
        self.children: dict[str, subprocess.Popen[bytes]] = {}  # agents started by this process
        self.busy: set[str] = set()  # instances that a thread of this process is ending
        # Marks that a full disk did not take: it must not keep an instance from ending. A new server is told again what to end.
        self.unwritten: dict[str, Ending] = {}
        self.unsignalled: set[str] = set()
        self._launched: dict[str, Launched] = {}  # contents of instance.json: never changes, and ids are never reused
        self._clock = clock
        self._turns = storage.instances_lock
        for path in (self.root, *storage.trees, storage.logs.root):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.alone():  # another server may be making one
            for half_made in self.root.glob(".*"):
                files.remove_tree(half_made)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Excludes all other threads and servers that add an instance or decide that one ends. Raises OSError."""
        turn = os.open(self._turns, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not locks.take(turn, patience_s=LOCK_PATIENCE_S):
                raise TimeoutError(f"another server has held {self._turns} for {LOCK_PATIENCE_S:.0f} s")
            with self.lock:
                yield
        finally:
            os.close(turn)

    def listed(self) -> set[str]:
        """Ids of all instances that exist. Forgets the others, which another server may have ended."""
        found = {name for name in os.listdir(self.root) if not name.startswith(".")}  # noqa: PTH208 - names are all we need
        for instance_id in {*self._launched, *self.children, *self.unwritten, *self.unsignalled}:
            if instance_id not in found and instance_id not in self.busy:
                self._forget(instance_id)
        return found

    def living(self, *, without: Collection[str] = ()) -> list[Launched]:
        """The instances that are alive and not ending, but for those `without`."""
        found = []
        for instance_id in self.listed() - set(without):
            launched = self.launched(instance_id)
            if launched is not None and not self.is_ending(instance_id) and self.alive(instance_id):
                found.append(launched)
        return found

    def is_ending(self, instance_id: str) -> bool:
        """Whether the instance was terminated."""
        return instance_id in self.unwritten or (self.root / instance_id / "ending.json").exists()

    def alive(self, instance_id: str) -> bool:
        """Whether the agent holds its lock, or may still be about to take it."""
        directory = self.root / instance_id
        child = self.children.get(instance_id)
        if child is not None and child.poll() is None:  # polling also reaps it
            return True
        if is_locked(directory):
            return True
        launched = self.launched(instance_id)
        if child is not None or launched is None or (directory / "agent.pid").exists():
            return False
        return 0 <= self._clock.now_ms() - launched.launched_ms < YOUNG_MS

    def was_started(self, instance_id: str) -> bool:
        """Whether an agent was started, as far as can be known. If in doubt it is started again: a second one ends at once."""
        child = self.children.get(instance_id)
        directory = self.root / instance_id
        return (child is not None and child.poll() is None) or (directory / "agent.pid").exists() or is_locked(directory)

    def launched(self, instance_id: str) -> Launched | None:
        """What was launched, or None if that cannot be read."""
        if instance_id not in self._launched:
            try:
                data = (self.root / instance_id / "instance.json").read_bytes()
                self._launched[instance_id] = _decode_launched(data)
            except (OSError, msgspec.MsgspecError):
                return None
        return self._launched[instance_id]

    def _forget(self, instance_id: str) -> None:
        self._launched.pop(instance_id, None)
        self.unwritten.pop(instance_id, None)
        self.unsignalled.discard(instance_id)
        child = self.children.get(instance_id)
        if child is None or child.poll() is not None:
            self.children.pop(instance_id, None)


def is_locked(directory: Path) -> bool:
    """Whether an agent holds the instance. The check takes the lock for a moment; agents wait for that."""
    try:
        return locks.is_taken(directory / "agent.lock")
    except OSError:
        return False
