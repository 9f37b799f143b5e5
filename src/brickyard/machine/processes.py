"""Finds and ends processes through /proc. Zombies count as dead."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

MARKER = "BRICKYARD_INSTANCE_ID"  # set in the environment of every process of a node


class Process(msgspec.Struct, frozen=True):
    """A process. Its start time (clock ticks since boot) tells it apart from a later process with the same pid."""

    pid: int
    start: int


def find(pid: int) -> Process | None:
    """Returns the living process with this pid, or None."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZXx" else Process(pid, int(fields[19]))


def alive(process: Process) -> bool:
    """Whether this same process is still alive."""
    return find(process.pid) == process


def send(process: Process, sig: signal.Signals) -> bool:
    """Signals the process. Returns False if it is not alive. Raises PermissionError if it belongs to another user."""
    if not alive(process):
        return False
    try:
        os.kill(process.pid, sig)
    except ProcessLookupError:
        return False
    return True


def descendants(top: int) -> list[int]:
    """Returns a process and all living processes below it. A pid namespace counts as below the process that made it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names are needed
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    found, queue = [top], [top]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


class Seen(msgspec.Struct, frozen=True):
    """A living process, at one moment."""

    parent: int
    threads: int
    name: str


def look(pids: Iterable[int]) -> dict[int, Seen]:
    """Returns those of them that are alive."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as handle:  # noqa: PTH123 - runs every second, for each
            left, _, right = handle.read().decode(errors="replace").rpartition(")")
            fields = right.split()
            if fields[0] not in "ZXx":
                found[pid] = Seen(int(fields[1]), int(fields[17]), left.partition("(")[2])
    return found


def crowd(seen: Mapping[int, Seen]) -> list[int]:
    """Returns the smallest tree of processes that has at least half of all threads, its top first. Empty if the node's own ones
    are in it: Java, where that is nearest to the top, and what is above it."""
    ways = {pid: _way_up(seen, pid) for pid in seen}
    javas = [pid for pid, each in seen.items() if each.name == "java"]
    first = min(javas or seen, key=lambda pid: (len(ways[pid]), pid), default=0)
    sizes: collections.Counter[int] = collections.Counter()
    for pid, way in ways.items():
        sizes.update(dict.fromkeys(way, seen[pid].threads))
    half = sum(each.threads for each in seen.values()) / 2
    tops = [pid for pid, size in sizes.items() if size >= half and pid not in ways[first]]
    if not tops:
        return []
    top = max(tops, key=lambda pid: len(ways[pid]))
    return sorted((pid for pid, way in ways.items() if top in way), key=lambda pid: len(ways[pid]))


def _way_up(seen: Mapping[int, Seen], pid: int) -> list[int]:
    way: list[int] = []
    while pid in seen and pid not in way:
        way.append(pid)
        pid = seen[pid].parent
    return way


def _parent(name: str) -> int:
    """Returns the parent's pid, or 0 for a zombie or a missing process."""
    try:
        with open(f"/proc/{name}/stat", "rb") as handle:  # noqa: PTH123 - runs every second, for every process
            fields = handle.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X", b"x") else int(fields[1])


def descriptors(pids: Iterable[int]) -> Iterator[str]:
    """Yields `/proc/PID/fd/N` for everything that the processes hold open. It may be gone by the time of use."""
    for pid in pids:
        with contextlib.suppress(OSError):
            yield from [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208 - only names are needed


def marked(instance_id: str) -> Iterator[Process]:
    """Yields our processes whose environment names the instance: leftovers of a node without isolation."""
    needle = f"{MARKER}={instance_id}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names are needed
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if needle in environ.split(b"\0") and (process := find(int(name))):
            yield process


def sweep(instance_id: str) -> int:
    """Kills an instance's leftover processes; returns how many there were. Repeat until it returns 0."""
    count = 0
    for process in list(marked(instance_id)):
        try:
            count += send(process, signal.SIGKILL)
        except PermissionError:
            continue  # not ours after all
    return count
