"""Samples what the node uses, every few seconds, for the server. Whatever cannot be measured is absent from a sample.

The numbers come from the kernel, from the watch over memory and disk, and, for what only Spark knows, from the node host. Hostile
code may lie through the node host about its own cluster; it cannot send anything but finite numbers under known names.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from brickyard.agent.clock import now_ms
from brickyard.agent.watching.meter import Watched
from brickyard.domain.node import Load
from brickyard.domain.periodic import Periodic
from brickyard.domain.samples import SAMPLE_S, NodeAbout, NodeSamples, Sample
from brickyard.machine import processes
from brickyard.machine.cgroups import Group
from brickyard.machine.gpus import GpuLostError, Gpus, measure
from brickyard.machine.pressure import Usage

KEPT = 120  # samples that no server has confirmed: ten minutes
# Confirmed ones, which a server that is killed may not have written: it writes every half minute, and some are 40 s old when they
# arrive.
EARLIER = 20
_TICKS = os.sysconf("SC_CLK_TCK")
_TRIES = 4  # processes that are asked for the node's network


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster's node that runs. `numbers`: what the node host says of Spark, unchecked."""

    watched: Watched
    cluster_id: str
    generation: int
    about: NodeAbout
    load: Load | None
    numbers: Mapping[str, object]
    gpus: tuple[str, ...] = ()  # UUIDs


class SampledNode(Protocol):
    """What sampling needs of `node.Node`."""

    @property
    def sampled(self) -> Sampled | None: ...

    def end(self, code: str, message: str, *, own_fault: bool = True) -> None:
        """Ends it as failed; `code` is the failure code for a driver."""


class Counters(NamedTuple):
    """What has been counted since some beginning; None: it cannot be measured. Those of processes are by process."""

    at_s: float  # time.monotonic()
    cpu: Mapping[processes.Process, float] | float  # seconds: of each process, or of the control group
    read: Mapping[processes.Process, float] | None  # bytes
    written: Mapping[processes.Process, float] | None
    received: float | None
    sent: float | None


class UsageSource(Protocol):
    """The watch over memory and disk: `watch.Watch`."""

    @property
    def usage(self) -> Usage | None:
        """What the current node took at the last look; None before the first."""
        ...


class SampleListener(Protocol):
    """Sends the samples to the servers: `link.serverlink.ServerLink`."""

    def sampled(self) -> None:
        """There is a new sample."""
        ...


class Sampler(Periodic):
    """One per agent."""

    def __init__(self, *, node: SampledNode, watch: UsageSource, listener: SampleListener, gpus: Gpus) -> None:
        super().__init__(every_s=SAMPLE_S, later=True)
        self._gpus = gpus
        self._node = node
        self._watch = watch
        self._listener = listener
        self._of: tuple[str, int] | None = None  # cluster and generation that the rest is about
        self._about = NodeAbout()
        self._last: Counters | None = None
        self._spark: dict[str, float] = {}  # the counters that Spark reported last
        self._unconfirmed: deque[Sample] = deque(maxlen=KEPT)
        self._confirmed: deque[Sample] = deque(maxlen=EARLIER)

    @property
    def pending(self) -> NodeSamples | None:
        """The samples that no server has confirmed."""
        if self._of is None or not self._unconfirmed:
            return None
        return NodeSamples(
            cluster_id=self._of[0], about=self._about, samples=tuple(self._unconfirmed), earlier=len(self._confirmed)
        )

    def confirm(self, taken: NodeSamples | None) -> None:
        """A server has taken these."""
        if taken is not None and taken.samples:
            while self._unconfirmed and self._unconfirmed[0].at_ms <= taken.samples[-1].at_ms:
                self._confirmed.append(self._unconfirmed.popleft())

    def again(self) -> None:
        """A server wants those that were confirmed lately again."""
        self._unconfirmed = deque([*self._confirmed, *self._unconfirmed], maxlen=KEPT)
        self._confirmed.clear()

    async def run_once(self) -> None:
        """Takes one sample, if there is a node."""
        node = self._node.sampled
        if node is None:
            return
        if self._of != (node.cluster_id, node.generation):
            if self._of is None or self._of[0] != node.cluster_id:
                self._unconfirmed.clear()
                self._confirmed.clear()
            self._of, self._about, self._last, self._spark = (node.cluster_id, node.generation), node.about, None, {}
        try:
            counters, gpu = await asyncio.to_thread(_look, node, self._gpus)
        except GpuLostError as lost:  # what runs on it fails or hangs, and nothing on this node can bring it back
            if (now := self._node.sampled) is not None and (now.cluster_id, now.generation) == self._of:
                self._node.end("INSTANCE_UNREACHABLE", f"{lost}. The node ends with it", own_fault=False)
            return
        last, self._last = self._last, counters
        values = {**self._gauges(node), **gpu}
        values |= self._spark_rates(node.numbers, counters.at_s - last.at_s if last is not None else math.inf)
        if last is not None:
            values |= rates(last, counters)
        self._unconfirmed.append(Sample(now_ms(), values))
        self._listener.sampled()

    def _gauges(self, node: Sampled) -> dict[str, float]:
        found: dict[str, float] = {}
        if (usage := self._watch.usage) is not None:
            found |= {"memory_bytes": usage.memory, "disk_bytes": usage.disk}
        for name in ("heap_bytes", "tasks_active", "tasks_waiting"):
            if (value := _number(node.numbers.get(name))) is not None:
                found[name] = value
        if (load := node.load) is not None:
            found["executors"] = len(load.workers)
            found["tasks_active"] = sum(worker.running for worker in load.workers)
            found["tasks_waiting"] = load.pending
        return found

    def _spark_rates(self, numbers: Mapping[str, object], seconds: float) -> dict[str, float]:
        """Of what Spark counts from its start. It asks its executors only while they work: then nothing has changed."""
        found: dict[str, float] = {}
        for name, metric, unit in (
            ("gc_ms", "gc_fraction", 1000),
            ("executor_gc_ms", "executor_gc_fraction", 1000),
            ("tasks_done", "tasks_done_per_s", 1),
        ):
            if (value := _number(numbers.get(name))) is None:
                continue
            if name in self._spark:
                found[metric] = max(0.0, value - self._spark[name]) / unit / seconds
            self._spark[name] = value
        return found


def rates(last: Counters, now: Counters) -> dict[str, float]:
    """What has been counted between two looks, per second."""
    seconds = max(now.at_s - last.at_s, 0.001)
    found = {
        "cpu_cores": _grown(last.cpu, now.cpu),
        "disk_read_bytes_per_s": _grown(last.read, now.read),
        "disk_write_bytes_per_s": _grown(last.written, now.written),
        "network_in_bytes_per_s": _grown(last.received, now.received),
        "network_out_bytes_per_s": _grown(last.sent, now.sent),
    }
    return {name: value / seconds for name, value in found.items() if value is not None}


_Count = Mapping[processes.Process, float] | float | None


def _grown(last: _Count, now: _Count) -> float | None:
    """How much has been added. All that a process has that was not there before counts; what one did that has ended meanwhile is
    not known."""
    if isinstance(last, Mapping) and isinstance(now, Mapping):
        return sum(max(0.0, value - last.get(process, 0.0)) for process, value in now.items())
    if isinstance(last, Mapping) or isinstance(now, Mapping) or last is None or now is None:
        return None
    return max(0.0, now - last)


def _look(node: Sampled, gpus: Gpus) -> tuple[Counters, dict[str, float]]:
    """Runs on a thread. Raises GpuLostError."""
    watched = node.watched
    pids = sorted(watched.group.processes()) or processes.descendants(watched.pid)
    cpu, read, written = _of_processes(pids)
    group_s = group_cpu_s(watched.group)
    received, sent = _network(pids)
    counters = Counters(
        at_s=time.monotonic(), cpu=cpu if group_s is None else group_s, read=read, written=written, received=received, sent=sent
    )
    return counters, measure(gpus, node.gpus)


def group_cpu_s(group: Group) -> float | None:
    """Returns the seconds of processor time of a control group; None if its files do not say."""
    for directory in group.directories:
        with contextlib.suppress(OSError, ValueError):
            return int(Path(directory, "cpuacct.usage").read_text()) / 1e9  # version 1
        with contextlib.suppress(OSError, ValueError, IndexError):
            first = Path(directory, "cpu.stat").read_text().split(maxsplit=2)
            if first[0] == "usage_usec":
                return int(first[1]) / 1e6
    return None


_Counted = dict[processes.Process, float]


def _of_processes(pids: Iterable[int]) -> tuple[_Counted, _Counted | None, _Counted | None]:
    """Returns processor time, bytes read from disks and bytes written to them. The kernel shows the bytes only for processes that
    we may look into; None if for no process."""
    cpu: _Counted = {}
    read: _Counted = {}
    written: _Counted = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            process = processes.Process(pid, int(fields[19]))
            cpu[process] = (int(fields[11]) + int(fields[12])) / _TICKS
            for line in Path(f"/proc/{pid}/io").read_bytes().splitlines():
                name, _, value = line.partition(b": ")
                if name == b"read_bytes":
                    read[process] = int(value)
                elif name == b"write_bytes":
                    written[process] = int(value)
    return cpu, read or None, written or None


def _network(pids: Iterable[int]) -> tuple[float | None, float | None]:
    """Returns the bytes received and sent by the node's own network, without its loopback device; None if it has none."""
    for _, pid in zip(range(_TRIES), pids, strict=False):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):  # noqa: PTH115 - no file's path
                continue
            received = sent = 0
            for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
                name, _, rest = line.partition(":")
                if name.strip() != "lo":
                    fields = rest.split()
                    received, sent = received + int(fields[0]), sent + int(fields[8])
            return received, sent
    return None, None


def _number(value: object) -> float | None:
    """A number that the node host has sent, if it is one."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e18
    return float(value) if good else None  # type: ignore[arg-type] # checked above
