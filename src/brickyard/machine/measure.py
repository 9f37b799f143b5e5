"""Measures what a node and the machine use, from the kernel's numbers. Nothing here raises: unreadable values count as zero."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from brickyard.machine.cgroups import Group
from brickyard.machine.disk import Amount, Disk
from brickyard.machine.growth import OpenFile
from brickyard.machine.pressure import Memory
from brickyard.machine.processes import descriptors

_KIB = 1024
_LIMITS = (  # for a container: limit, usage, and the part of the usage that can be reclaimed
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes", "total_inactive_file"),
)


def machine_memory() -> Memory | None:
    """Returns the machine's memory, or None if this kernel does not report it (macOS)."""
    values = _fields("/proc/meminfo")
    if "MemAvailable" not in values:
        return None
    total, available = values["MemTotal"] * _KIB, values["MemAvailable"] * _KIB
    for limit, use, spare in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # not mounted, or "max"
            allowed = int(Path(limit).read_text())
            if allowed < total:
                used = int(Path(use).read_text()) - _fields(str(Path(limit).with_name("memory.stat"))).get(spare, 0)
                total, available = allowed, min(available, max(0, allowed - used))
    return Memory(total=total, available=available, stalled=_stalled())


def _stalled() -> float:
    """Returns the percentage of the last ten seconds in which every process waited for memory."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/pressure/memory").read_text().splitlines():
            if line.startswith("full"):
                return float(line.split()[1].partition("=")[2])
    return 0.0


def group_memory(group: Group) -> int:
    """Returns the memory of a control group's processes that dropping file caches would not free."""
    for directory in group.directories:
        values = _fields(f"{directory}/memory.stat")
        if "total_rss" in values:  # version 1
            return values["total_rss"] + values.get("total_shmem", 0) + values.get("total_swap", 0)
        if "anon" in values:
            return values["anon"] + values.get("shmem", 0)
    return 0


def memory_of(pids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Returns pid -> (private, shared) bytes, quickly: shared memory counts in full for every process that shares it."""
    return {pid: _resident(pid) for pid in pids}


def _resident(pid: int) -> tuple[int, int]:
    values = _fields(f"/proc/{pid}/status")
    return _KIB * (values.get("RssAnon", 0) + values.get("VmSwap", 0)), _KIB * values.get("RssShmem", 0)


def exact_memory_of(pids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """The same, but counts only each process's part of the memory that it shares. Takes milliseconds for a large process."""
    found = {}
    for pid in pids:
        values = _fields(f"/proc/{pid}/smaps_rollup")
        exact = (_KIB * (values.get("Pss_Anon", 0) + values.get("SwapPss", 0)), _KIB * values.get("Pss_Shmem", 0))
        found[pid] = exact if "Pss_Anon" in values else _resident(pid)
    return found


def shared_memory_files(pids: Iterable[int]) -> int:
    """Returns the bytes of files in each /dev/shm that the processes see. Only for isolated nodes: otherwise it counts
    everybody's."""
    found: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            place = f"/proc/{pid}/root/dev/shm"
            device = os.stat(place).st_dev  # noqa: PTH116 - runs every second, for every process
            if device not in found:
                there = os.statvfs(place)
                found[device] = (there.f_blocks - there.f_bfree) * there.f_frsize
    return sum(found.values())


def written_by(pids: Iterable[int]) -> int:
    """Returns the bytes that the processes and their ended children have written to disks since they started."""
    return sum(_fields(f"/proc/{pid}/io").get("write_bytes", 0) for pid in pids)


def writers_below(pids: Iterable[int], places: tuple[str, ...]) -> dict[OpenFile, int]:
    """Returns the files that processes have open for writing and whose paths, as they see them, begin with one of `places`, with
    their sizes."""
    found: dict[OpenFile, int] = {}
    for pid in pids:
        for path in descriptors([pid]):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if os.readlink(path).startswith(places):  # noqa: PTH115 - plain strings throughout
                    flags = Path(path.replace("/fd/", "/fdinfo/")).read_text().splitlines()[1].split()[1]
                    info = os.stat(path)  # noqa: PTH116 - as above
                    if int(flags, 8) & os.O_ACCMODE and stat.S_ISREG(info.st_mode):
                        found[OpenFile(pid, info.st_dev, info.st_ino)] = info.st_size
    return found


def sent_by(pid: int) -> int:
    """Returns the bytes that a process has handed to write(2) and the like, for files or anything else; 0 if it has gone."""
    return _fields(f"/proc/{pid}/io").get("wchar", 0)


def disk(place: Path) -> Disk:
    """Returns what the disk that holds a directory has. Unlike the rest, this raises OSError."""
    there = os.statvfs(place)
    return Disk(
        total=Amount(there.f_blocks * there.f_frsize, there.f_files), free=Amount(there.f_bavail * there.f_frsize, there.f_favail)
    )


def _fields(path: str) -> Mapping[str, int]:
    """Parses the numbers from lines like `Name: 12 kB` or `name 12`."""
    found: dict[str, int] = {}
    try:
        with open(path, "rb") as handle:  # noqa: PTH123 - runs every second, for every process
            lines = handle.read().decode(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[1].isdecimal():
            found[words[0].rstrip(":")] = int(words[1])
    return found
