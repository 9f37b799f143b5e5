"""Tells users' programs that the node is about to end: SIGTERM, to every kernel and to everything that kernels have started.

They are found from outside, whatever walls the node has: a kernel by its command line, its programs by their ancestors, and those
that have lost theirs (`nohup ... &`) by a variable that only kernels have. Spark, its executors and the programs of init scripts
are told nothing. Users' code can only make its own programs look like something else.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from brickyard.machine.processes import Process, alive, descendants, find, send

VARIABLE = b"CONTEXT_PACKAGES="  # in the environment of kernels, and so of what they start
_KERNEL, _START = b"kernel", b"start.py"


class Programs(NamedTuple):
    """What users' code runs in on a node: the kernels, and what these have started."""

    kernels: tuple[Process, ...]
    started: tuple[Process, ...]


def programs_of(top: int) -> Programs:
    """Those below a process. May block for some milliseconds."""
    pids = descendants(top)
    known = {pid: (parent, group) for pid in pids if (parent := _parent(pid)) and (group := _group(pid))}
    looks = {pid for pid, (_, group) in known.items() if group == pid and _is_kernel(pid)}
    kernels = {pid for pid in looks if not _above(pid, known) & looks}
    started = [pid for pid in known if pid not in kernels and (_above(pid, known) & kernels or _has_variable(pid))]
    return Programs(_found(kernels), _found(started))


def tell(programs: Programs) -> None:
    """Sends SIGTERM to all of them."""
    for process in (*programs.kernels, *programs.started):
        with contextlib.suppress(PermissionError):
            send(process, signal.SIGTERM)


def left(told: Iterable[Process]) -> list[Process]:
    """Those that still run and may have heard it: one that ignores SIGTERM is not waited for."""
    return [process for process in told if alive(process) and not _ignores(process.pid)]


def _found(pids: Iterable[int]) -> tuple[Process, ...]:
    return tuple(process for pid in pids if (process := find(pid)) is not None)


def _above(pid: int, known: dict[int, tuple[int, int]]) -> set[int]:
    """The ancestors of a process."""
    found: set[int] = set()
    while (pid := known[pid][0] if pid in known else 0) and pid not in found:
        found.add(pid)
    return found


def _fields(pid: int) -> list[str]:
    """What /proc says of a process after its name: its state, its parent, its group, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def _group(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[2]) if fields else 0


def _is_kernel(pid: int) -> bool:
    words = _read(pid, "cmdline").split(b"\0")[1:3]
    return len(words) == 2 and words[0].endswith(_START) and words[1] == _KERNEL


def _has_variable(pid: int) -> bool:
    return any(each.startswith(VARIABLE) for each in _read(pid, "environ").split(b"\0"))


def _ignores(pid: int) -> bool:
    for line in _read(pid, "status").splitlines():
        name, _, value = line.partition(b":")
        if name == b"SigIgn":
            return bool(int(value, 16) >> (signal.SIGTERM - 1) & 1)
    return False


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
