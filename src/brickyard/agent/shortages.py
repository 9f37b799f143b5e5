"""What a node lacked when it failed: memory, processes and threads, or free disk space."""

from __future__ import annotations

import errno
import os
import time
from typing import NamedTuple

import msgspec

from brickyard.domain.node import Failure
from brickyard.machine.cgroups import Group, Limits
from brickyard.machine.disk import FULL, Amount, Disk

LATELY_S = 30.0  # a node that fails this soon after it lacked something fails because of that
CROWDED = (
    "the node's processes and threads were used up ({} are allowed). Start fewer of them, or choose a node type with more cores"
)
_NO_SPACE = os.strerror(errno.ENOSPC)  # what programs say that cannot write


class WantOfMemory(NamedTuple):
    """Why the node dies for lack of memory; empty if it does not. `code`: a driver's failure code then."""

    reason: str = ""
    code: str = ""


class Shortages:
    """What one node's processes were refused lately."""

    def __init__(self) -> None:
        self._refusals = 0  # how often the control group has refused a process
        self._crowded_s = 0.0  # when it last has (monotonic)
        self._starved, self._starved_s = WantOfMemory(), 0.0  # why one of the processes was ended, and when (monotonic)

    def starved(self, reason: str, code: str = "") -> None:
        """Records that a process is ended for lack of memory ("": none was)."""
        self._starved, self._starved_s = WantOfMemory(reason, code), time.monotonic()

    def crowded(self) -> bool:
        """Records that the node has all the processes and threads that it may have, and so is refused more. Returns whether that
        is news."""
        before, self._crowded_s = self._crowded_s, time.monotonic()
        return not before or self._crowded_s - before > LATELY_S

    def of_processes(self, group: Group, limits: Limits) -> str:
        """The reason, if the node's own processes have lately been refused more; otherwise ""."""
        refusals, known = group.refusals(), self._refusals
        self._refusals = refusals
        if refusals > known:
            self.crowded()
        if not self._crowded_s or time.monotonic() - self._crowded_s > LATELY_S:
            return ""
        return CROWDED.format(limits.tasks)

    def of_memory(self, group: Group) -> WantOfMemory:
        """The reason, if the node dies for lack of memory."""
        if self._starved.reason and time.monotonic() - self._starved_s < LATELY_S:
            return self._starved
        if (killed := group.out_of_memory()) == "limit":
            return WantOfMemory(
                "the node ran out of memory: the kernel killed its processes. Choose a node type with more memory",
                "DRIVER_OUT_OF_MEMORY",
            )
        if killed:
            return WantOfMemory(
                "the machine ran out of memory, and the kernel killed processes of the node, which was within what it may take. "
                "End other programs of the machine, or run fewer clusters at a time; an administrator can lower "
                "memory_overcommit",
                "DRIVER_EVICTION",
            )
        return WantOfMemory()


def on_full_disk(failure: Failure, disk: Disk, *, floor: Amount, driver: bool) -> Failure:
    """A failure, with a full disk behind it: programs that cannot write fail in any way. `floor`: what should be free."""
    said = _NO_SPACE in f"{failure.message}\n{failure.log_tail}"
    left = disk.shortage(floor.at_least(FULL) if said else FULL)
    if not left or "OUT_OF_MEMORY" in failure.code:
        return failure
    code = "DRIVER_OUT_OF_DISK" if driver else failure.code
    return msgspec.structs.replace(failure, code=code, message=f"the machine's disk is full: {left}. {failure.message}")


def explained(failure: Failure, *, want_of_memory: str, code: str) -> Failure:
    """A failure that the host reports, with the lack of memory behind it: the host can only say that a process was killed. A JVM
    that ran out of its own heap knows better: then an earlier kill of another process was not the reason."""
    if not want_of_memory or failure.code == "DRIVER_OUT_OF_MEMORY":
        return failure
    return msgspec.structs.replace(failure, code=code, message=want_of_memory)
