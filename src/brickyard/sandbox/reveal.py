"""Shows directories to a running node: `python -I -S reveal.py PID LEVELS HOW SOURCE TARGET [SOURCE TARGET ...]`, or has it
follow no links in those that it sees: `... PID LEVELS without-links TARGET [TARGET ...]`.

The agent runs this. PID is the node's launcher, and the node host is LEVELS below it; HOW is `read-only` or `read-write`. Each
TARGET is a directory that the node's view reserves for this; afterwards it shows its SOURCE. They may be the same directory,
which thereby becomes read-only for the node. Nothing else of the machine becomes visible, not even for a moment. This needs no
privileges on the machine: it copies mounts in our own namespace and moves them into the node's, which we also own because we
made it.

Exit code 71 after a line on stderr that says what could not be done.
"""

# ruff: noqa: PTH100, PTH116, PTH120, PTH123, PTH208 - as in enter.py: pathlib costs start-up time
from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from brickyard.machine.linux import CLONE_NEWNS, CLONE_NEWUSER, FAILED, SetupError, check, complain, guarded, libc

# C libraries have no names for these system calls; the numbers are the same on every architecture.
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE = 1
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
MOVE_MOUNT_F_EMPTY_PATH = 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSYMFOLLOW = 1, 2, 4, 0x200000
WITHOUT_LINKS = "without-links"
NS_GET_USERNS = 0xB701


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_uint64], what: str) -> int:
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *given))
    check(0 if result >= 0 else -1, what)
    return result


def copy_mount(source: str, *, read_only: bool) -> int:
    """Returns a detached mount of `source`."""
    flags = OPEN_TREE_CLONE | os.O_CLOEXEC
    tree = syscall(OPEN_TREE, AT_FDCWD, os.fsencode(source), flags, what=f"cannot copy the mount of {source}")
    flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (MOUNT_ATTR_RDONLY if read_only else 0)
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, size, what=f"cannot restrict the mount of {source}")
    return tree


def send_mounts(sources: list[str], read_only: bool, to: socket.socket) -> None:
    """Makes the mounts in our own namespaces, where that is permitted, and sends them."""
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "cannot make namespaces")
    trees = array.array("i", [copy_mount(source, read_only=read_only) for source in sources])
    to.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, trees)])
    os._exit(0)


def receive_mounts(sources: list[str], *, read_only: bool) -> list[int]:
    """Gets the mounts from a child process, because a process that has entered other namespaces cannot enter the node's."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        guarded(send_mounts, sources, read_only, theirs)
    theirs.close()
    _, fds, _, _ = socket.recv_fds(ours, 1, len(sources))
    os.waitpid(child, 0)
    if len(fds) != len(sources):
        raise SetupError(f"{' and '.join(sources)} cannot be mounted in the node")  # the child has reported why
    return fds


def inside(launcher: int, levels: int) -> int:
    """Returns the node host: unlike the processes that started it, its owner may enter its namespaces."""
    for _ in range(levels):
        launcher = first_child_of(launcher)
    return launcher


def first_child_of(parent: int) -> int:
    """Returns the oldest child."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as handle:
                    fields = handle.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append((int(fields[19]), int(name)))
    if not found:
        raise SetupError("the node has ended")
    return min(found)[1]


def enter_node(pid: int) -> None:
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(mounts, NS_GET_USERNS)
    check(libc.setns(owner, CLONE_NEWUSER), "cannot enter the node's user namespace")
    check(libc.setns(mounts, CLONE_NEWNS), "cannot enter the node's mounts")


def reveal(sources: list[str], targets: list[str], launcher: int, levels: int, *, read_only: bool) -> None:
    wanted = [os.stat(source) for source in sources]
    trees = receive_mounts(sources, read_only=read_only)
    enter_node(inside(launcher, levels))
    for source, target, tree, expected in zip(sources, targets, trees, wanted, strict=True):
        place = os.fsencode(target)
        syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH, what=f"cannot show {source} at {target}")
        found = os.stat(target)
        if (found.st_dev, found.st_ino) != (expected.st_dev, expected.st_ino):
            raise SetupError(f"{target} is not a mount of {source}")


def forbid_links(targets: list[str], launcher: int, levels: int) -> None:
    """In the node host's own mounts alone: what other cells see stays as it is."""
    enter_node(inside(launcher, levels))
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_NOSYMFOLLOW, 0, 0, 0)
    for target in targets:
        what, size = f"cannot forbid links in {target}", ctypes.sizeof(attributes)
        syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), 0, attributes, size, what=what)


def main() -> None:
    try:
        launcher, levels, how, *shown = sys.argv[1:]
        if how == WITHOUT_LINKS:
            forbid_links(shown, int(launcher), int(levels))
            return
        reveal(shown[::2], shown[1::2], int(launcher), int(levels), read_only=how == "read-only")
    except (SetupError, OSError) as error:
        complain(error)
        os._exit(FAILED)


if __name__ == "__main__":
    main()
