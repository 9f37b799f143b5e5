"""The watch over one node: ends what takes more memory or disk than it may, before the machine runs out of either.

Where control groups can be written the kernel bounds memory and processes. Here is the rest: disks, which it does not bound;
machines on which control groups cannot be written; and several nodes that together use more than the machine has. Looking costs
little while there is room, and becomes more frequent as it shrinks.
"""

from __future__ import annotations

import asyncio
import collections
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from brickyard.agent import held, measure, pressure, processes
from brickyard.agent.cgroups import Group, Limits
from brickyard.agent.config import AgentConfig
from brickyard.agent.log import LogFile
from brickyard.agent.pressure import Memory, Usage, text
from brickyard.agent.usage import Published, published, turn

CALM_S = 1.0  # between two looks while there is room
NEAR_S = 0.5
SHARE = 0.03  # of the time may be spent on looking while there is room
SCAN_S = 60.0  # a node's files are counted at least so often; sooner when the disk has filled meanwhile
SCAN_SHARE = 0.05
SCAN_STEP = 64 << 20  # bytes of the disk that must be gone for counting again
LATELY_S = 60.0  # "lately written"
AGAIN_S = 10.0  # a second process to be ended so soon: the node goes as a whole
RELIEF_S = 5.0  # how long the others wait for what one of them has ended

OUT_OF_MEMORY, OUT_OF_DISK = "DRIVER_OUT_OF_MEMORY", "DRIVER_OUT_OF_DISK"


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The node that runs now."""

    pid: int  # of the process that everything of it is below
    group: Group
    walled: bool  # it has a /dev/shm of its own
    limits: Limits
    share: int  # bytes of memory that its type promises
    shared_dir: str = ""  # of a driver: its cluster's directory, which counts as the driver's


class Node(Protocol):
    """What the watch needs of `node.Node`."""

    @property
    def watched(self) -> Watched | None: ...

    def end(self, code: str, message: str) -> None:
        """End it as failed; `code` is what a driver's failure is."""

    def starved(self, message: str) -> None:
        """One of its processes was ended: should the node fail now, this is why."""

    def disk_is_low(self, used: int, limit: int) -> None:
        """Tell its cluster; 0, 0: it is not, any more."""


class _Seen(msgspec.Struct, kw_only=True):
    """One look."""

    memory: Memory | None
    disk_total: int
    disk_free: int
    usage: Usage
    pids: list[int]


class Watch:
    """One per agent. `run` until cancelled."""

    def __init__(self, *, config: AgentConfig, node: Node, log: LogFile) -> None:
        self._config = config
        self._node = node
        self._log = log
        self._instances = config.directory.parent
        self._lock = self._instances.parent / "pressure.lock"
        self._published = Published(config.directory)
        self._about: tuple[int, str] | None = None  # the node (its process, its cluster's directory) that the following is about
        self._held = held.Held()
        self._shared = held.Held()  # in the cluster's directory
        self._found = held.Held()  # the same at the first look
        self._scanned: tuple[float, float, int] | None = None  # when, for how long, and how much was free
        self._written: collections.deque[tuple[float, int]] = collections.deque()
        self._killed_s = 0.0

    async def run(self) -> None:
        """Look for ever."""
        pause = CALM_S
        while True:
            await asyncio.sleep(pause)
            watched, pause = self._node.watched, CALM_S
            if watched is None:
                if self._about is not None:
                    self._about = None
                    self._published.write(Usage(instance_id=self._config.instance_id, at_s=time.monotonic()))
                continue
            if self._about != (watched.pid, watched.shared_dir):  # a warm node is given a cluster while it runs
                self._forget()
                self._about = (watched.pid, watched.shared_dir)
            began = time.monotonic()
            try:
                seen = await asyncio.to_thread(self._look, watched)
            except OSError as error:  # the data directory is not there, now
                self._log.write(f"what the node uses cannot be measured: {error}")
                pause = 10.0
                continue
            pause = NEAR_S if self._is_near(watched, seen) else max(CALM_S, (time.monotonic() - began) / SHARE)
            if self._node.watched == watched:
                await self._judge(watched, seen)

    def _forget(self) -> None:
        self._held, self._shared, self._found = held.Held(), held.Held(), held.Held()
        self._scanned, self._killed_s = None, 0.0
        self._written.clear()

    # ── look ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, watched: Watched) -> _Seen:
        """On a thread. Raises OSError."""
        memory = measure.machine_memory()
        total, free = measure.disk(self._config.directory)
        pids = sorted(watched.group.processes()) or processes.descendants(watched.pid)
        now = time.monotonic()
        self._scan(watched, pids, now, free)
        self._written.append((now, measure.written_by(pids)))
        while self._written[0][0] < now - LATELY_S:
            self._written.popleft()
        usage = Usage(
            instance_id=self._config.instance_id,
            at_s=now,
            memory=self._memory(watched, pids),
            memory_share=watched.share,
            disk=self._held.size + max(0, self._shared.size - self._found.size),
            written=max(0, self._written[-1][1] - min(bytes_ for _, bytes_ in self._written)),
        )
        self._published.write(usage)
        return _Seen(memory=memory, disk_total=total, disk_free=free, usage=usage, pids=pids)

    def _memory(self, watched: Watched, pids: list[int]) -> int:
        """Quickly and rather too much; exactly when that is more than the node may use."""
        if watched.group.directories:
            return measure.group_memory(watched.group)
        files = held.memory_files(pids) + (measure.shared_memory_files(pids) if watched.walled else 0)
        quickly = _together(measure.memory_of(pids), files)
        return quickly if quickly < watched.limits.memory_mb << 20 else _together(measure.exact_memory_of(pids), files)

    def _scan(self, watched: Watched, pids: list[int], now: float, free: int) -> None:
        """Count the node's files, if it is time to."""
        if self._scanned is not None:
            at, took, free_then = self._scanned
            grown = free_then - free >= SCAN_STEP or self._is_short(free)
            if now - at < (took / SCAN_SHARE if grown else SCAN_S):
                return
        if watched.shared_dir:
            self._shared = held.held(Path(watched.shared_dir))
            self._found = self._found if self._scanned else self._shared
        found = held.held(self._config.node_dir)
        on_disk = held.nameless_files(pids, self._config.directory.stat().st_dev)
        self._held = found + held.Held(on_disk)
        self._scanned = (now, time.monotonic() - now, free)

    def _is_short(self, free: int) -> bool:
        return free < 2 * self._config.min_free_disk

    def _is_near(self, watched: Watched, seen: _Seen) -> bool:
        bounded = bool(watched.group.directories)
        full = not bounded and seen.usage.memory > pressure.NEAR / 2 * (watched.limits.memory_mb << 20)
        return full or self._is_short(seen.disk_free) or (seen.memory is not None and seen.memory.near)

    # ── judge ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _judge(self, watched: Watched, seen: _Seen) -> None:
        if not watched.group.directories and len(seen.pids) > watched.limits.tasks:
            why = f"the node has {len(seen.pids)} processes, and {watched.limits.tasks} are allowed"
            self._node.end("DRIVER_UNEXPECTED_FAILURE", why)
        elif not watched.group.directories and seen.usage.memory > watched.limits.memory_mb << 20:
            why = f"the node used {text(seen.usage.memory)} of memory, and may use {text(watched.limits.memory_mb << 20)}"
            await self._starve(watched, f"{why}. Choose a node type with more memory")
        elif self._takes_too_much_disk():
            pass  # it is ended
        elif self._fills_dbfs(seen):
            self._node.end(
                OUT_OF_DISK,
                "the node was writing to the workspace's files (dbfs:/), which take more than they may (dbfs_gb). Delete some, "
                "or let an administrator raise dbfs_gb",
            )
        elif seen.memory is not None and seen.memory.low:
            await self._relieve_memory(watched, seen.memory)
        elif seen.disk_free < self._floor(seen):
            await self._relieve_disk(seen)

    def _floor(self, seen: _Seen) -> int:
        return pressure.disk_floor(seen.disk_total, self._config.min_free_disk)

    def _takes_too_much_disk(self) -> bool:
        """Whether the node alone does, and so was ended; while there is time, its cluster is told first."""
        own, shared, limit = self._held.size, self._shared.size, self._config.node_disk
        used = own + shared
        if self._held.too_many or (self._shared.too_many and not self._found.too_many):
            self._node.end(OUT_OF_DISK, f"the node has more than {held.MAX_ENTRIES} files. Remove what is not needed")
            return True
        if not limit:
            return False
        if pressure.exceeds_disk(own=own, shared=shared, found=self._found.size, limit=limit):
            where = f" ({text(shared)} of it in the cluster's directory, /cluster)" if shared >= pressure.MIB else ""
            self._node.end(
                OUT_OF_DISK,
                f"the node used {text(used)} of disk{where}, and may use {text(limit)} (node_disk_gb). Remove what is not "
                "needed, or let an administrator raise node_disk_gb",
            )
            return True
        near = used > pressure.NEAR * limit
        self._node.disk_is_low(*(used, limit) if near else (0, 0))
        return False

    def _fills_dbfs(self, seen: _Seen) -> bool:
        """Whether it writes there while the server says that they take too much."""
        try:
            said = (self._instances.parent / pressure.DBFS_FULL).stat().st_mtime
        except OSError:
            return False
        places = ("/dbfs/", f"{self._config.dbfs_dir}/")
        return abs(time.time() - said) < pressure.DBFS_FULL_S and measure.writes_below(seen.pids, places)

    async def _relieve_memory(self, watched: Watched, memory: Memory) -> None:
        """The machine runs out of memory. Of all nodes only the greatest offender gives way, one at a time."""
        if not self._is_it(pressure.memory_offender(self._others(), now_s=time.monotonic(), total=memory.total)):
            return
        with turn(self._lock) as ours:
            now = await asyncio.to_thread(measure.machine_memory)
            if not ours or now is None or not now.low:
                return
            why = (
                f"the machine ran out of memory ({text(now.available)} of {text(now.total)} were left), and of all nodes this "
                "one was furthest above its share. Choose a smaller spark.driver.memory or spark.executor.memory, or run fewer "
                "clusters at a time; an administrator can lower memory_overcommit"
            )
            await self._starve(watched, why)
            await _until(_memory_is_back)

    async def _relieve_disk(self, seen: _Seen) -> None:
        """The disk runs full. As above."""
        if not self._is_it(pressure.disk_offender(self._others(), now_s=time.monotonic())):
            return
        with turn(self._lock) as ours:
            total, free = measure.disk(self._config.directory)
            if not ours or free >= self._floor(seen):
                return
            self._node.end(
                OUT_OF_DISK,
                f"the machine's disk ran full ({text(free)} of {text(total)} were left, and min_free_disk_gb keeps "
                f"{text(self._floor(seen))} free), and this node took the most: it held {text(seen.usage.disk)} and had lately "
                f"written {text(seen.usage.written)}. Remove what is not needed, also below dbfs:/, or give the disk more room",
            )
            await _until(lambda: measure.disk(self._config.directory)[1] >= self._floor(seen))

    def _others(self) -> list[Usage]:
        return published(self._instances)

    def _is_it(self, named: str | None) -> bool:
        return named == self._config.instance_id

    async def _starve(self, watched: Watched, why: str) -> None:
        """End the node's greatest process; the whole node, where there is no such process or that has not helped."""
        found = await asyncio.to_thread(self._greatest, watched)
        if self._node.watched != watched:
            return
        if found is None or time.monotonic() - self._killed_s < AGAIN_S:
            self._node.end(OUT_OF_MEMORY, why)
            return
        process, size = found
        self._killed_s = time.monotonic()
        self._node.starved(why)
        self._log.write(f"process {process.pid} of the node, which used {text(size)}, is ended: {why}")
        try:
            processes.send(process, signal.SIGKILL)
        except PermissionError:
            self._node.end(OUT_OF_MEMORY, why)

    def _greatest(self, watched: Watched) -> tuple[processes.Process, int] | None:
        """On a thread: the process that uses at least half of what its node does."""
        pids = sorted(watched.group.processes()) or processes.descendants(watched.pid)
        there = {pid: process for pid in pids if (process := processes.find(pid)) is not None}
        sizes = {pid: sum(parts) for pid, parts in measure.exact_memory_of(there).items()}
        greatest = max(sizes, key=lambda pid: (sizes[pid], pid), default=0)
        if not greatest or 2 * sizes[greatest] < sum(sizes.values()):
            return None
        return there[greatest], sizes[greatest]


def _together(parts: Mapping[int, tuple[int, int]], files: int) -> int:
    """Memory of all processes. What they share may be files that are known by themselves; it counts once."""
    return sum(own for own, _ in parts.values()) + max(files, sum(shared for _, shared in parts.values()))


def _memory_is_back() -> bool:
    memory = measure.machine_memory()
    return memory is None or not memory.low


async def _until(condition: Callable[[], bool]) -> None:
    """Hold the turn until what was ended has given back what it had, but not for ever."""
    deadline = time.monotonic() + RELIEF_S
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - the kernel tells no event of it
        await asyncio.sleep(0.1)
