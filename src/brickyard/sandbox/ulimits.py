"""A node's share of what the kernel counts for a user, and not for a node: otherwise one node could use up what all nodes and the
machine's other programs have. Standard library only: the launcher runs it. What no share can hold is in docs/resources.md.
"""

# ruff: noqa: PTH123 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import os
import resource

SHARE = 8  # a node gets 1/SHARE of what a user has
USERS = (3, 4)  # the share of a node's processes and threads that kernels may have; the rest is kept back for Spark
FEW = 8  # that many of anything a node has in any case
FILES = 4096  # a process may have these open in any case
MOST_FILES = 1 << 20  # more than this our own processes do not have either (`machine/limits.py`)
UNLIMITED = 1 << 17  # what counts as the user's limit where there is none
COUNTED_SINCE = (5, 14)  # Linux: from then on the limits below count for a user namespace, before for the machine's user
# Limits of a user namespace, and where the machine's own are.
INOTIFY = {"max_inotify_instances": "max_user_instances", "max_inotify_watches": "max_user_watches"}


def limit_files() -> None:
    """Lets each process have three quarters of the files that ours may have open. The kernel compares the descriptors that all
    of a user's processes have under way in Unix sockets with the sender's limit: agents must still be able to send some."""
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], MOST_FILES)
    wanted = max(hard * 3 // 4, min(hard, FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))


def limit_user() -> None:
    """Limits pending signals, each POSIX timer being one, and message queues. Call it inside the node's user namespace, if it has
    one: there the kernel counts what this node has, besides what its user has on the machine."""
    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
    wanted = share(UNLIMITED if hard == resource.RLIM_INFINITY else hard)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (wanted, wanted))


def limit_namespace(processes: int) -> None:
    """Limits inotify and, with `processes`, processes and threads in our user namespace. Needs its capabilities and a /proc."""
    for name, machine in INOTIFY.items():
        with contextlib.suppress(OSError, ValueError):  # a kernel without it
            with open(f"/proc/sys/fs/inotify/{machine}") as handle:
                wanted = share(int(handle.read()))
            with open(f"/proc/sys/user/{name}", "w") as handle:
                handle.write(str(wanted))
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if processes and version() >= COUNTED_SINCE and (hard == resource.RLIM_INFINITY or processes < hard):
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


def keep_processes_back() -> None:
    """Lets this process, and what it starts, make no more processes and threads while the node (or its user) has as many as
    kernels may have. What has the whole limit goes on."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NPROC, (part(hard, USERS),) * 2)


def part(whole: int, share: tuple[int, int]) -> int:
    return whole * share[0] // share[1]


def share(whole: int) -> int:
    return max(whole // SHARE, min(whole, FEW))


def version() -> tuple[int, int]:
    """The kernel's."""
    major, minor, *_ = os.uname().release.replace("-", ".").split(".")
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)
