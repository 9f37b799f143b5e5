"""The control groups of kernels, inside their node's.

All kernels of a node together get a group that keeps a part of the node's processes and threads back for Spark. Each kernel has
its own group in that one, limited to a quarter of the node's, or to half of them beside the node host: a fork bomb in one kernel
leaves room for the other kernels and for Spark.
"""

# ruff: noqa: PTH110, PTH123, PTH208 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import os

from brickyard.machine.linux import complain
from brickyard.sandbox.roots import DIRECTORY
from brickyard.sandbox.ulimits import USERS, part

KERNELS = "kernels"  # the control group of all kernels, inside the node's
GROUP, SHARE = "kernel-{}", (1, 3)  # the group of a kernel's cell, inside that one, and its share: a quarter of the node's
BESIDE, SHARE_BESIDE = "beside-{}", (2, 3)  # the same of a kernel in the node host's cell, which is named by its pid there


def opened(entries: list[str]) -> list[int]:
    """Makes the group of kernels in each of the node's control groups that can limit processes, and opens it while it is
    visible. `entries`: the files the node joined. Where none can be made, only the node's limit applies."""
    found = []
    for directory in map(os.path.dirname, entries):
        if os.path.exists(f"{directory}/pids.max"):
            group = os.open(directory, os.O_PATH | DIRECTORY)
            try:
                _fill(group, KERNELS, USERS)
                found.append(os.open(KERNELS, os.O_PATH | DIRECTORY, dir_fd=group))
            except OSError as error:
                complain(error)
            finally:
                os.close(group)
    return found


def make(groups: list[int], number: int) -> list[tuple[int, str]]:
    """Makes a group for a kernel in each of `groups`; returns those, with its names in them. Where none can be made, only theirs
    limits it."""
    made, name = [], GROUP.format(number)
    for group in groups:
        try:
            _fill(group, name, SHARE)
            made.append((group, name))
        except OSError as error:
            complain(error)
            remove([group], number)
    return made


def enter(made: list[tuple[int, str]]) -> None:
    """Moves this process into the groups that `make` has made."""
    for group, name in made:
        _write(group, f"{name}/cgroup.procs", "0")


def join_beside(group: int, pid: int) -> None:
    """Moves a process, by its pid in our own namespace, into a group of its own. Removes those of processes that have ended."""
    left = os.open(".", os.O_RDONLY | DIRECTORY, dir_fd=group)
    for name in os.listdir(left):
        if name.startswith(BESIDE.format("")):
            with contextlib.suppress(OSError):  # it is in use
                os.rmdir(name, dir_fd=group)
    os.close(left)
    name = BESIDE.format(pid)
    _fill(group, name, SHARE_BESIDE)
    _write(group, f"{name}/cgroup.procs", str(pid))


def _fill(group: int, name: str, share: tuple[int, int]) -> None:
    """Makes a group inside another one that may have that share of its processes and threads."""
    limit = _read(group, "pids.max")
    if _exists(group, "cgroup.subtree_control"):  # version 2
        _write(group, "cgroup.subtree_control", "+pids")
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=group)
    if _exists(group, f"{name}/cgroup.type"):  # version 2 allows only threaded groups beside the node's own processes
        _write(group, f"{name}/cgroup.type", "threaded")
    _write(group, f"{name}/pids.max", limit if limit == "max" else str(part(int(limit), share)))


def remove(groups: list[int], number: int) -> None:
    """Removes the group of a kernel that has ended. Whatever cannot be removed yet goes with the node's group (`cgroups.py`)."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(GROUP.format(number), dir_fd=group)


def _exists(group: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=group)
    except FileNotFoundError:
        return False
    return True


def _read(group: int, name: str) -> str:
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=group)) as handle:
        return handle.read().strip()


def _write(group: int, name: str, value: str) -> None:
    with open(os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=group), "w") as handle:
        handle.write(value)
