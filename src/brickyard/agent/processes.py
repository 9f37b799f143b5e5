"""Looking at and ending processes through /proc. A process that is a zombie counts as dead."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

MARKER = "BRICKYARD_INSTANCE_ID"  # in the environment of every process of a node


class Process(msgspec.Struct, frozen=True):
    """A process, told apart from a later one with the same number by its start (clock ticks since boot)."""

    pid: int
    start: int


def find(pid: int) -> Process | None:
    """The living process with this number, or None."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZXx" else Process(pid, int(fields[19]))


def alive(process: Process) -> bool:
    """Whether it is this very process that lives."""
    return find(process.pid) == process


def send(process: Process, sig: signal.Signals) -> bool:
    """Signal it if it lives. False: it does not. Raises PermissionError for a process of somebody else."""
    if not alive(process):
        return False
    try:
        os.kill(process.pid, sig)
    except ProcessLookupError:
        return False
    return True


def descendants(top: int) -> list[int]:
    """A process and every living one below it. From outside, a pid namespace is below the process that made it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all we need
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    found, queue = [top], [top]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _parent(name: str) -> int:
    """0: it is a zombie, or gone."""
    try:
        with open(f"/proc/{name}/stat", "rb") as handle:  # noqa: PTH123 - read every second, for every process
            fields = handle.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X", b"x") else int(fields[1])


def descriptors(pids: Iterable[int]) -> Iterator[str]:
    """`/proc/PID/fd/N` for everything that the processes hold open. It may be gone by the time that it is looked at."""
    for pid in pids:
        with contextlib.suppress(OSError):
            yield from [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208 - names are all we need


def marked(instance_id: str) -> Iterator[Process]:
    """Processes of ours whose environment names the instance: what is left of a node whose walls could not be built."""
    needle = f"{MARKER}={instance_id}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all we need
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if needle in environ.split(b"\0") and (process := find(int(name))):
            yield process


def sweep(instance_id: str) -> int:
    """Kill what is left of an instance; returns how many there were. Repeat until it returns 0."""
    count = 0
    for process in list(marked(instance_id)):
        try:
            count += send(process, signal.SIGKILL)
        except PermissionError:
            continue  # not ours after all
    return count
