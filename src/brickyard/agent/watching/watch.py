"""Watches one node: ends whatever takes more memory or disk than allowed, before the machine runs out of either.

With writable control groups, the kernel limits memory and processes. This covers the rest: disks, which control groups do not
limit; machines whose control groups are not writable; and several nodes that together use more than the machine has. Checks are
cheap while there is room, and become more frequent as it shrinks.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from typing import Protocol

from brickyard.agent.config import AgentConfig
from brickyard.agent.watching.meter import NodeMeter, Seen, Watched, is_short
from brickyard.agent.watching.usage import published, turn
from brickyard.domain.periodic import Periodic
from brickyard.logs.bounded import LogFile
from brickyard.machine import held, measure, pressure, processes
from brickyard.machine.disk import MIB, Amount, Disk, Lack, text
from brickyard.machine.pressure import Memory, Usage

CALM_S = 1.0  # between two checks while there is room
NEAR_S = 0.5
SHARE = 0.03  # of the time may be spent on checks while there is room
AGAIN_S = 10.0  # if a second process has to be ended this soon, the whole node is ended
NEARLY_ALL = 63 / 64  # of a node's processes and threads: at its limit, the number that is left is never exactly none
RELIEF_S = 5.0  # how long the others wait for the effect of one agent's action

OUT_OF_MEMORY, OUT_OF_DISK = "DRIVER_OUT_OF_MEMORY", "DRIVER_OUT_OF_DISK"
OVER_QUOTA = (
    "it went on writing to the workspace's files (dbfs:/, /Volumes or /Workspace), which take more than they may (dbfs_gb, or "
    "their number). Delete some, or ask an administrator to raise dbfs_gb"
)
EVICTED = "DRIVER_EVICTION"  # the machine ran short: the cluster was within what it may take


class WatchedNode(Protocol):
    """What the watch needs of `node.Node`."""

    @property
    def watched(self) -> Watched | None: ...

    def end(self, code: str, message: str, *, own_fault: bool = True) -> None:
        """Ends it as failed; `code` is the failure code for a driver. `own_fault`: for what its own programs took, so what runs
        on it has failed as well."""

    def starved(self, code: str, message: str) -> None:
        """Records that one of its processes was ended: if the node fails now, this is the reason."""

    def killed_by_kernel(self) -> None:
        """Records that the kernel has killed one of its processes for want of memory."""

    def crowded(self) -> None:
        """Records that it has all the processes and threads that it may have: this is why, if it fails or is silent now."""

    def disk_is_low(self, used: int, limit: int, of: Lack = Lack.SIZE) -> None:
        """Warns its cluster that it has used so much `of` its bytes or inodes; 0, 0 withdraws the warning."""


class Watch(Periodic):
    """One per agent."""

    def __init__(self, *, config: AgentConfig, node: WatchedNode, log: LogFile) -> None:
        super().__init__(every_s=CALM_S, later=True)
        self._config = config
        self._node = node
        self._log = log
        self._meter = NodeMeter(config)
        self._instances = config.directory.parent
        self._lock = self._instances.parent / "pressure.lock"
        self._about: tuple[int, tuple[str, ...]] | None = None  # pid and cluster directories of the node that the rest describes
        self._killed_s = 0.0
        self._oom_kills, self._refusals = 0, 0  # the kernel's, in the node's control group
        self._spared = False  # whether memory is low and no node is to be ended for it

    @property
    def usage(self) -> Usage | None:
        """What the current node took at the last look; None before the first."""
        return self._meter.usage

    async def run_once(self) -> None:
        watched, self.every_s = self._node.watched, CALM_S
        if watched is None:
            if self._about is not None:
                self._about = None
                self._meter.end()
            return
        if self._about != (watched.pid, watched.shared_dirs):  # a cluster may take over a warm node while it runs
            self._meter.forget()
            self._killed_s = 0.0
            self._oom_kills, self._refusals = watched.group.oom_kills(), watched.group.refusals()
            self._about = (watched.pid, watched.shared_dirs)
        began = time.monotonic()
        try:
            seen = await asyncio.to_thread(self._meter.look, watched)
        except OSError as error:  # the data directory is missing right now
            self._log.write(f"what the node uses cannot be measured: {error}")
            self.every_s = 10.0
            return
        self.every_s = NEAR_S if self._is_near(watched, seen) else max(CALM_S, (time.monotonic() - began) / SHARE)
        if self._node.watched == watched:
            self._hear_kernel(watched)
            await self._judge(watched, seen)

    def _is_near(self, watched: Watched, seen: Seen) -> bool:
        bounded = bool(watched.group.directories)
        full = not bounded and seen.usage.memory > pressure.NEAR / 2 * (watched.limits.memory_mb << 20)
        return full or seen.full or is_short(seen.disk, self._config) or (seen.memory is not None and seen.memory.near)

    def _hear_kernel(self, watched: Watched) -> None:
        before, self._oom_kills = self._oom_kills, watched.group.oom_kills()
        if self._oom_kills > before:
            self._node.killed_by_kernel()
        before, self._refusals = self._refusals, watched.group.refusals()
        if self._refusals > before:
            self._node.crowded()

    async def _judge(self, watched: Watched, seen: Seen) -> None:
        if seen.tasks >= watched.limits.tasks * NEARLY_ALL:
            await self._thin_out(watched, seen)
        elif not watched.group.directories and seen.usage.memory > watched.limits.memory_mb << 20:
            why = f"the node used {text(seen.usage.memory)} of memory, and may use {text(watched.limits.memory_mb << 20)}"
            await self._starve(watched, OUT_OF_MEMORY, f"{why}. Choose a node type with more memory")
        elif self._takes_too_much_disk(watched, seen.disk):
            pass  # the node has been ended
        elif seen.writers:
            await self._stop_writers(watched, seen.writers)
        elif seen.memory is not None and seen.memory.low:
            await self._relieve_memory(watched, seen)
        elif (lack := seen.disk.lack(self._floor(seen.disk))) is not None:
            await self._relieve_disk(seen, lack)

    async def _thin_out(self, watched: Watched, seen: Seen) -> None:
        """Ends the tree of processes that has most of the node's processes and threads, or the whole node if there is none. Linux
        may keep kernels below the limit, but not Python workers."""
        self._node.crowded()
        tree = await asyncio.to_thread(lambda: [processes.find(pid) for pid in processes.crowd(processes.look(seen.pids))])
        if self._node.watched != watched:
            return
        why = f"the node has {seen.tasks} processes and threads, and {watched.limits.tasks} are allowed"
        if not tree:
            self._node.end("DRIVER_UNEXPECTED_FAILURE", f"{why}. Start fewer of them, or choose a node type with more cores")
            return
        self._log.write(f"{len(tree)} processes of the node are ended, from process {tree[0].pid if tree[0] else 0} on: {why}")
        for process in filter(None, tree):
            with contextlib.suppress(PermissionError):
                processes.send(process, signal.SIGKILL)

    def _floor(self, disk: Disk) -> Amount:
        return disk.floor(self._config.min_free_disk)

    def _takes_too_much_disk(self, watched: Watched, disk: Disk) -> bool:
        """Whether the node exceeded its disk limit and was ended. Warns its cluster first, while there is time."""
        own, shared, limit = self._meter.own.size, self._meter.shared.size, self._config.node_disk
        used = own + shared
        most = pressure.most_inodes(disk.total.inodes, held.MAX_ENTRIES)
        if self._meter.own.entries > most or self._meter.shared.entries > max(most, self._meter.found.entries + pressure.FEWEST):
            self._node.end(OUT_OF_DISK, f"the node has more than {most:,} files. Remove what is not needed")
            return True
        if pressure.exceeds_quota(size=self._meter.workspace, found=self._meter.workspace_found, limit=watched.workspace_limit):
            self._node.end(
                OUT_OF_DISK,
                f"the cluster's workspace directory, /workspace, took {text(self._meter.workspace)}, and may take "
                f"{text(watched.workspace_limit)} (storage_gb). Remove what is not needed, or start the cluster with more",
            )
            return True
        if limit and pressure.exceeds_disk(own=own, shared=shared, found=self._meter.found.size, limit=limit):
            where = f" ({text(shared)} of it in the cluster's directory, /cluster)" if shared >= MIB else ""
            self._node.end(
                OUT_OF_DISK,
                f"the node used {text(used)} of disk{where}, and may use {text(limit)} (node_disk_gb). Remove what is not "
                "needed, or let an administrator raise node_disk_gb",
            )
            return True
        taken = (
            (used, limit, Lack.SIZE),
            (self._meter.workspace, watched.workspace_limit, Lack.SIZE),
            (max(self._meter.own.entries, self._meter.shared.entries), most, Lack.INODES),
        )
        low = (each for each in taken if each[0] > pressure.NEAR * each[1] > 0)
        self._node.disk_is_low(*next(low, (0, 0, Lack.SIZE)))
        return False

    async def _stop_writers(self, watched: Watched, pids: set[int]) -> None:
        """Ends processes that go on writing to the workspace's files, though these take more than they may: what Spark and Python
        write has failed by then (NodeFiles.java, kernel/quota.py). What dies with such a process, dies for this reason."""
        there = [process for pid in sorted(pids) if (process := await asyncio.to_thread(processes.find, pid)) is not None]
        if self._node.watched != watched:
            return
        for process in there:
            self._node.starved(OUT_OF_DISK, OVER_QUOTA)
            self._log.write(f"process {process.pid} of the node is ended: {OVER_QUOTA}")
            try:
                processes.send(process, signal.SIGKILL)
            except PermissionError:
                self._node.end(OUT_OF_DISK, OVER_QUOTA)

    async def _relieve_memory(self, watched: Watched, seen: Seen) -> None:
        """Handles low memory of the machine. Of all nodes only the worst offender yields, one at a time."""
        usages, memory = self._others(), seen.memory
        assert memory is not None  # noqa: S101 - it is low
        least = self._config.memory_guard_share
        named = pressure.memory_offender(usages, now_s=time.monotonic(), total=memory.total, least=least)
        if (named is None) != self._spared:
            self._spared = named is None
            if self._spared:
                held_by = pressure.holders(usages, memory, now_s=time.monotonic()).text
                self._log.write(
                    f"the machine is short of memory ({text(memory.available)} of {text(memory.total)} are left): {held_by}. No "
                    f"node is ended, since none takes {least:.0%} of its share (memory_guard_share)"
                )
        if not self._is_it(named):
            return
        with turn(self._lock) as ours:
            now = await asyncio.to_thread(measure.machine_memory)
            if not ours or now is None or not now.low:
                return
            await self._starve(
                watched, EVICTED, _shortage(seen.usage, now, pressure.holders(usages, now, now_s=time.monotonic()))
            )
            await _until(_memory_is_back)

    async def _relieve_disk(self, seen: Seen, lack: Lack) -> None:
        """Handles a disk that runs full, in the same way."""
        if not self._is_it(pressure.disk_offender(self._others(), now_s=time.monotonic(), lack=lack)):
            return
        with turn(self._lock) as ours:
            disk = measure.disk(self._config.directory)
            if not ours or disk.lack(self._floor(disk)) is not lack:
                return
            self._node.end(OUT_OF_DISK, _full(seen.usage, disk, self._floor(disk), lack), own_fault=False)
            await _until(lambda: measure.disk(self._config.directory).lack(self._floor(disk)) is not lack)

    def _others(self) -> list[Usage]:
        return published(self._instances)

    def _is_it(self, named: str | None) -> bool:
        return named == self._config.instance_id

    async def _starve(self, watched: Watched, code: str, why: str) -> None:
        """Ends the node's largest process, or the whole node if there is no such process or ending one has not helped."""
        found = await asyncio.to_thread(self._greatest, watched)
        if self._node.watched != watched:
            return
        if found is None or time.monotonic() - self._killed_s < AGAIN_S:
            self._node.end(code, why, own_fault=code != EVICTED)
            return
        process, size = found
        self._killed_s = time.monotonic()
        self._node.starved(code, why)
        self._log.write(f"process {process.pid} of the node, which used {text(size)}, is ended: {why}")
        try:
            processes.send(process, signal.SIGKILL)
        except PermissionError:
            self._node.end(code, why, own_fault=code != EVICTED)

    def _greatest(self, watched: Watched) -> tuple[processes.Process, int] | None:
        """Runs on a thread. Returns the largest process if it uses at least half of its node's memory."""
        pids = sorted(watched.group.processes()) or processes.descendants(watched.pid)
        there = {pid: process for pid in pids if (process := processes.find(pid)) is not None}
        sizes = {pid: sum(parts) for pid, parts in measure.exact_memory_of(there).items()}
        greatest = max(sizes, key=lambda pid: (sizes[pid], pid), default=0)
        if not greatest or 2 * sizes[greatest] < sum(sizes.values()):
            return None
        return there[greatest], sizes[greatest]


def _full(usage: Usage, disk: Disk, floor: Amount, lack: Lack) -> str:
    """Why a node is ended when the machine's disk runs full, and what helps."""
    held_, lately = Amount(usage.disk, usage.inodes), Amount(usage.written, usage.made)
    return (
        f"the machine's disk ran full ({disk.left(lack)}, and min_free_disk_gb keeps {floor.text(lack)} free), and this node "
        f"took the most: it held {held_.text(lack)} and had lately {'written' if lack is Lack.SIZE else 'made'} "
        f"{lately.text(lack)}. Remove what is not needed, also below dbfs:/, or give the disk more room"
    )


def _shortage(usage: Usage, memory: Memory, held_by: pressure.Holders) -> str:
    """Why a node is ended when the machine runs out of memory, and what helps."""
    if held_by.programs > held_by.nodes:
        remedy = "End other programs of the machine, or run fewer clusters at a time"
    else:
        remedy = (
            "Choose a smaller spark.driver.memory or spark.executor.memory, or run fewer clusters at a time; an administrator "
            "can lower memory_overcommit"
        )
    return (
        f"the machine ran out of memory ({text(memory.available)} of {text(memory.total)} were left): {held_by.text}. Of all "
        f"nodes this one was furthest above its share, with {text(usage.memory)}. {remedy}"
    )


def _memory_is_back() -> bool:
    memory = measure.machine_memory()
    return memory is None or not memory.low


async def _until(condition: Callable[[], bool]) -> None:
    """Holds the turn until the ended process has released its resources, but not forever."""
    deadline = time.monotonic() + RELIEF_S
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - the kernel sends no event for this
        await asyncio.sleep(0.1)
