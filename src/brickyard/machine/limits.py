"""The machine's limits for this process and its children: open files, processes, inodes."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

from brickyard.machine import measure
from brickyard.machine.disk import INODES_KEPT, Amount, Lack

FILES_NEEDED = 1024  # a driver's JVM alone has about 400 open: Spark's jars, shuffle files, connections
FILES_ADVISED = 8192  # for the server: two connections per node, one per polling client
PROCESSES_ADVISED = 4096  # threads count too; a busy node has about 200
_MOST_FILES = 1 << 20  # upper bound: programs that loop over all possible descriptors would take forever


class Limit(NamedTuple):
    """A limit, its verdict ("ok", "note" or "broken"), and a sentence that says what to do."""

    name: str
    state: str
    text: str


def raise_files() -> None:
    """Raises the limit of open files for this process and its children as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return  # macOS reports no limit but has one


def dump_nothing() -> None:
    """When this process or a child crashes, no file of its memory is written: that would hold the workspace's keys."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def files() -> Limit:
    """The limit of open files, after `raise_files`."""
    name, remedy = "open files", "Raise it: ulimit -Hn, LimitNOFILE= of a systemd service, --ulimit nofile= of a container."
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = hard if soft == resource.RLIM_INFINITY else soft
    if limit == resource.RLIM_INFINITY or limit >= FILES_ADVISED:
        return Limit(name, "ok", "no limit" if limit == resource.RLIM_INFINITY else f"{limit} a process")
    if limit < FILES_NEEDED:
        return Limit(name, "broken", f"a process may have {limit} files open, and a node needs {FILES_NEEDED}. {remedy}")
    return Limit(
        name,
        "note",
        f"a process may have {limit} files open: enough for small clusters, not for many ({FILES_ADVISED}). {remedy}",
    )


def processes() -> Limit:
    """Processes and threads: the limits of this user and of this process's control groups."""
    name, found = "processes", []
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.geteuid() != 0 and soft != resource.RLIM_INFINITY:  # does not apply to root
        found.append((soft, "this user may have {} processes and threads. Raise it: ulimit -u, LimitNPROC= of a service."))
    if (left := _pids_left()) is not None:
        found.append(
            (left, "the control group has room for {} more. Raise it: TasksMax= of a service, --pids-limit of a container.")
        )
    tight = [text.format(number) for number, text in found if number < PROCESSES_ADVISED]
    if tight:
        return Limit(name, "note", f"{' '.join(tight)} A node has some 200 threads.")
    return Limit(name, "ok", f"room for {min(number for number, _ in found)}" if found else "no limit")


def inodes(place: str, path: Path) -> Limit | None:
    """The limit if the disk of a directory has too few free inodes; None otherwise, or if no parent directory exists yet."""
    there = next((each for each in (path, *path.parents) if each.is_dir()), None)
    if there is None:
        return None
    disk = measure.disk(there)
    if disk.lack(Amount(inodes=INODES_KEPT)) is not None:
        said = f"the disk of {path}: {disk.left(Lack.INODES)}; {INODES_KEPT:,} are needed. Remove files there."
        return Limit(f"{place} files", "broken" if disk.free.inodes < INODES_KEPT // 10 else "note", said)
    return None


def _pids_left() -> int | None:
    """How many more processes the tightest control group allows; None: any number."""
    rooms = []
    for place in _pids_groups():
        try:
            limit, used = (Path(place, name).read_text().strip() for name in ("pids.max", "pids.current"))
        except OSError:
            continue
        if limit != "max":
            rooms.append(max(0, int(limit) - int(used)))
    return min(rooms, default=None)


def _pids_groups() -> list[Path]:
    """The control groups that may limit this process, up to the root, for cgroup v1 and v2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids") or "pids" in controllers.split(","):
            root = Path("/sys/fs/cgroup", "pids" if controllers else "")
            group = root / path.lstrip("/")
            found += [each for each in (group, *group.parents) if each.is_relative_to(root)]
    return found
