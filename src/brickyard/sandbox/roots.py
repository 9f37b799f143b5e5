"""Builds a node's root file system, and what each cell sees on top of it, from a plan's mounts (see `sandbox.py`)."""

# ruff: noqa: PTH102, PTH103, PTH112, PTH116, PTH120, PTH123, PTH211 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import os
import stat

from brickyard.machine.linux import (
    MNT_DETACH,
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NODIRATIME,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_RELATIME,
    MS_REMOUNT,
    MS_SILENT,
    MS_SLAVE,
    SetupError,
    check,
    libc,
    mount,
)

DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = "/old"  # where the machine's root is while the new one is being built
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)


def build_root(mounts: list[list[str]]) -> None:
    """Builds a root that consists only of the plan's mounts. Afterwards the old root is out of reach.

    An empty tmpfs becomes the root, with the old root at /old as the source of bind mounts and the new root being built at
    /new. The second pivot makes /new the root and releases the old one.
    """
    mount("", "/", flags=MS_SLAVE | MS_REC | MS_SILENT)
    base = next((path for path in ("/tmp", "/run", "/mnt", "/var") if os.path.isdir(path)), None)  # noqa: S108 - nothing is written there: our own mount hides it
    if base is None:
        raise SetupError("none of the directories /tmp, /run, /mnt and /var exists, and one is needed to build the root on")
    mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    os.mkdir(f"{base}/old")
    os.mkdir(f"{base}/new")
    mount("tmpfs", f"{base}/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    check(libc.pivot_root(base.encode(), f"{base}/old".encode()), "cannot change the root")
    os.chdir("/")
    sealed = ["/new"]
    for kind, source, target, option in mounts:
        sealed += place(kind, source, "/new" + target, option, old=OLD)
    for target in sealed:
        restrict(target, MS_RDONLY)
    os.chdir("/new")
    check(libc.pivot_root(b".", b"."), "cannot change the root")
    check(libc.umount2(b".", MNT_DETACH), "cannot let the old root go")
    os.chdir("/")


def place(kind: str, source: str, target: str, option: str, *, old: str = "") -> list[str]:
    """Makes one mount of the plan; sources lie below `old`. Returns mounts to make read-only once everything is placed."""
    if kind == "link":
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(source, target)
    elif kind == "tmpfs":
        os.makedirs(target, exist_ok=True)
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, option)
        return [target] if "mode=0555" in option else []
    elif kind == "proc":
        os.makedirs(target, exist_ok=True)
        mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        return [target]  # otherwise a process could undo that it is killed first when memory is short (oom_score_adj)
    elif kind == "dev":
        place_devices(target, old)
    elif kind == "pts":
        place_terminals(target)
    elif kind == "device":
        bind(source, target, MS_RDONLY | MS_NOSUID, old=old, devices=True)
    else:
        bind(source, target, MS_NOSUID | (MS_RDONLY if kind == "ro" else 0), old=old)
    return []


def bind(source: str, target: str, flags: int, *, old: str, devices: bool = False) -> None:
    """Shows the host's `source` at `target`, with everything mounted below it."""
    try:
        show(old + source, target)
    except OSError as error:
        raise SetupError(f"cannot show {source}: {error.strerror}") from error
    for inner in mounts_below(target, old):
        restrict(inner, flags | (0 if devices else MS_NODEV))


def show(real: str, target: str) -> None:
    """Mounts `real` at `target`, with everything mounted below it, keeping the restrictions of each. Raises OSError,
    SetupError."""
    is_directory = stat.S_ISDIR(os.stat(real).st_mode)
    os.makedirs(target if is_directory else os.path.dirname(target), exist_ok=True)
    if not is_directory and not os.path.lexists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    mount(real, target, flags=MS_BIND | MS_REC | MS_SILENT)


def mounts_below(target: str, old: str) -> list[str]:
    """Returns the mount `target` and every mount below it."""
    with open(f"{old}/proc/self/mountinfo") as handle:
        points = [line.split()[4] for line in handle]
    for escaped, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        points = [point.replace(escaped, character) for point in points]  # no codec: its module may be invisible by now
    return [target, *(point for point in points if point.startswith(target + "/"))]


def restrict(target: str, flags: int) -> None:
    """Adds mount flags. Existing flags must be repeated: a user namespace may not remove them."""
    there = os.statvfs(target).f_flag
    keep = there & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
    keep |= MS_RELATIME if there & os.ST_RELATIME else 0
    mount("", target, flags=MS_REMOUNT | MS_BIND | MS_SILENT | keep | flags)


def place_devices(target: str, old: str) -> None:
    for name in DEVICES:
        bind(f"/dev/{name}", f"{target}/{name}", MS_RDONLY | MS_NOSUID, old=old, devices=True)
    for name, source in DEVICE_LINKS:
        os.symlink(source, f"{target}/{name}")
    place_terminals(f"{target}/pts")
    os.symlink("pts/ptmx", f"{target}/ptmx")


def place_terminals(target: str) -> None:
    os.makedirs(target, exist_ok=True)
    # The machine has some thousand terminals for all.
    mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=128")
