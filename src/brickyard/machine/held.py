"""Measures how much disk a tree uses. The tree is hostile: any depth and width, full of links, and changing during the scan."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from brickyard.machine.files import open_directory
from brickyard.machine.processes import descriptors

MAX_ENTRIES = 2_000_000  # scanning this many takes a few seconds; no honest node needs more

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Held(msgspec.Struct, frozen=True):
    """Bytes on disk (in blocks, so holes in sparse files cost nothing) and names. A file with two names counts once."""

    size: int = 0
    entries: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(self.size + other.size, self.entries + other.entries)


class _Level(msgspec.Struct):
    """A directory on the way down: its identity, and its subdirectories still to visit."""

    identity: tuple[int, int]
    waiting: list[str]


def held(root: Path) -> Held:
    """Measures everything below `root`, which must not be a link. Skips entries that vanish meanwhile. Never raises.

    Only one descriptor is open at a time, whatever the depth: the way back is `..`. If that leads elsewhere because the
    directory was moved during the scan, the scan ends with what it has found.
    """
    look = _Look()
    try:
        fd = os.open(root, _DIRECTORY)
    except OSError:
        return Held()
    try:
        way = [look.level(fd)]
        while way and look.entries <= MAX_ENTRIES:
            if way[-1].waiting:
                inner = _open(way[-1].waiting.pop(), fd)
                if inner is not None:
                    os.close(fd)
                    fd = inner
                    way.append(look.level(fd))
                continue
            way.pop()
            if way:
                outer = _open("..", fd)
                if outer is None or _identity(os.fstat(outer)) != way[-1].identity:
                    if outer is not None:
                        os.close(outer)
                    break
                os.close(fd)
                fd = outer
    finally:
        os.close(fd)
    return Held(look.size, look.entries)


class _Look:
    def __init__(self) -> None:
        self.size = 0
        self.entries = 0
        self._linked: set[tuple[int, int]] = set()  # files with several names, already counted

    def level(self, fd: int) -> _Level:
        """Counts a directory's own entries."""
        own = os.fstat(fd)
        waiting: list[str] = []
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > MAX_ENTRIES:
                        break
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(info.st_mode):
                        if info.st_dev == own.st_dev:
                            waiting.append(entry.name)
                    elif info.st_nlink > 1:
                        if _identity(info) in self._linked:
                            continue
                        self._linked.add(_identity(info))
                    self.size += info.st_blocks * 512
        except OSError:
            pass  # it has just been removed
        return _Level(_identity(own), waiting)


def _open(name: str, fd: int) -> int | None:
    """Opens a directory, even one that its owner closed to hide its contents."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=fd)
    except PermissionError:
        with contextlib.suppress(OSError):
            return open_directory(name, dir_fd=fd)
    except OSError:
        pass
    return None


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def nameless_files(pids: Iterable[int], device: int) -> Held:
    """Measures the unlinked files on one disk that the processes hold open."""
    found = _nameless(pids, lambda _, info: info.st_dev == device)
    return Held(sum(found.values()), len(found))


def memory_files(pids: Iterable[int]) -> int:
    """Returns the same for files that exist only in memory (memfd)."""
    return sum(_nameless(pids, lambda path, _: os.readlink(path).startswith("/memfd:")).values())  # noqa: PTH115 - a plain string


def _nameless(pids: Iterable[int], wanted: Callable[[str, os.stat_result], bool]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for path in descriptors(pids):
        with contextlib.suppress(OSError):
            info = os.stat(path)  # noqa: PTH116 - plain strings throughout
            if not info.st_nlink and stat.S_ISREG(info.st_mode) and wanted(path, info):
                found[_identity(info)] = info.st_blocks * 512
    return found
