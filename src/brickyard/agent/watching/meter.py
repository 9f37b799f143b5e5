"""Measures what one node takes of memory and disk, and publishes it for the agents of the machine's other nodes."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.agent.watching.usage import Published
from brickyard.machine import held, measure, processes
from brickyard.machine.cgroups import Group, Limits
from brickyard.machine.disk import Amount, Disk
from brickyard.machine.growth import Growth
from brickyard.machine.pressure import Memory, Usage

SCAN_S = 60.0  # a node's files are counted at least this often; sooner if the disk has filled meanwhile
SCAN_SHARE = 0.05
LATELY_S = 60.0  # meaning of "lately written"


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The currently running node."""

    pid: int  # pid of the process above all its other processes
    group: Group
    walled: bool  # it has its own /dev/shm
    limits: Limits
    share: int  # bytes of memory that its type promises
    shared_dirs: tuple[str, ...] = ()  # for a driver: its cluster's directories, which count towards the driver
    workspace_dir: str = ""  # one of them
    workspace_limit: int = 0  # bytes that it may take; 0: no limit of its own


class Seen(msgspec.Struct, kw_only=True):
    """The result of one check."""

    memory: Memory | None
    disk: Disk
    usage: Usage
    pids: list[int]
    tasks: int  # processes and threads
    full: bool  # the workspace's files take more than they may
    writers: set[int]  # pids that write there all the same


class _Lately:
    """How much a number has grown in the last LATELY_S."""

    def __init__(self) -> None:
        self._known: collections.deque[tuple[float, int]] = collections.deque()

    def grown(self, now: float, number: int) -> int:
        self._known.append((now, number))
        while self._known[0][0] < now - LATELY_S:
            self._known.popleft()
        return max(0, number - min(each for _, each in self._known))


class NodeMeter:
    """One per agent. What it knows is about one node, until `forget`."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._published = Published(config.directory)
        self.usage: Usage | None = None  # at the last look
        self.own = held.Held()
        self.shared = held.Held()  # in the cluster's directory
        self.found = held.Held()  # the same at the first look
        self.workspace, self.workspace_found = 0, 0  # bytes of them in the workspace directory, and at the first look
        self._scanned: tuple[float, float, Disk] | None = None  # when, for how long, and what was free
        self._written, self._made = _Lately(), _Lately()
        self._growth = Growth()

    def forget(self) -> None:
        """Another node comes."""
        self.usage = None
        self.own, self.shared, self.found = held.Held(), held.Held(), held.Held()
        self._scanned = None
        self._written, self._made = _Lately(), _Lately()
        self._growth.forget()

    def end(self) -> None:
        """The node has ended."""
        self.usage = None
        self._published.write(Usage(instance_id=self._config.instance_id, at_s=time.monotonic()))

    def look(self, watched: Watched) -> Seen:
        """Runs on a thread. Raises OSError."""
        memory = measure.machine_memory()
        disk = measure.disk(self._config.directory)
        pids = sorted(watched.group.processes()) or processes.descendants(watched.pid)
        tasks = watched.group.tasks() or sum(each.threads for each in processes.look(pids).values())
        now = time.monotonic()
        self._scan(watched, pids, now, disk)
        inodes = self.own.entries + max(0, self.shared.entries - self.found.entries)
        usage = Usage(
            instance_id=self._config.instance_id,
            at_s=now,
            memory=self._memory(watched, pids),
            memory_share=watched.share,
            disk=self.own.size + max(0, self.shared.size - self.found.size),
            written=self._written.grown(now, measure.written_by(pids)),
            inodes=inodes,
            made=self._made.grown(now, inodes),
        )
        self._published.write(usage)
        self.usage = usage
        full = self._config.dbfs_full.exists()
        writers = self._writers(pids) if full else set()
        if not full:
            self._growth.forget()
        return Seen(memory=memory, disk=disk, usage=usage, pids=pids, tasks=tasks, full=full, writers=writers)

    def _writers(self, pids: list[int]) -> set[int]:
        places = tuple(f"{path}/" for tree in self._config.trees for path in (tree.target, tree.source))
        sizes = measure.writers_below(pids, places)
        return self._growth.look(sizes, {file.pid: measure.sent_by(file.pid) for file in sizes})

    def _memory(self, watched: Watched, pids: list[int]) -> int:
        """Measures quickly, which overestimates, and then exactly if the result exceeds the node's limit."""
        if watched.group.directories:
            return measure.group_memory(watched.group)
        files = held.memory_files(pids) + (measure.shared_memory_files(pids) if watched.walled else 0)
        quickly = _together(measure.memory_of(pids), files)
        return quickly if quickly < watched.limits.memory_mb << 20 else _together(measure.exact_memory_of(pids), files)

    def _scan(self, watched: Watched, pids: list[int], now: float, disk: Disk) -> None:
        """Counts the node's files if that is due."""
        if self._scanned is not None:
            at, took, then = self._scanned
            grown = disk.has_lost(then) or is_short(disk, self._config)
            if now - at < (took / SCAN_SHARE if grown else SCAN_S):
                return
        if watched.shared_dirs:
            counted = {each: held.held(Path(each)) for each in watched.shared_dirs}
            self.shared = sum(counted.values(), held.Held())
            self.workspace = counted.get(watched.workspace_dir, held.Held()).size
            if self._scanned is None:
                self.found, self.workspace_found = self.shared, self.workspace
        found = held.held(self._config.node_dir) + held.held(self._config.libraries_dir)
        self.own = found + held.nameless_files(pids, self._config.directory.stat().st_dev)
        self._scanned = (now, time.monotonic() - now, disk)


def is_short(disk: Disk, config: AgentConfig) -> bool:
    """Whether the disk has not much more free than it should."""
    return disk.lack(Amount(2 * config.min_free_disk, 2 * disk.floor(config.min_free_disk).inodes)) is not None


def _together(parts: Mapping[int, tuple[int, int]], files: int) -> int:
    """Returns the memory of all processes. Shared memory may be files that are also counted separately; it counts once."""
    return sum(own for own, _ in parts.values()) + max(files, sum(shared for _, shared in parts.values()))
