"""How much disk a tree holds. The tree is hostile: of any depth and width, full of links, and changing while we look."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from brickyard.agent.files import open_directory
from brickyard.agent.processes import descriptors

MAX_ENTRIES = 2_000_000  # a look takes a few seconds for so many; a node has no honest use for more

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Held(msgspec.Struct, frozen=True):
    """Bytes on the disk (blocks: holes of sparse files cost nothing) and names. A file with two names counts once."""

    size: int = 0
    entries: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(self.size + other.size, self.entries + other.entries)

    @property
    def too_many(self) -> bool:
        return self.entries > MAX_ENTRIES


class _Level(msgspec.Struct):
    """A directory on the way down: who it is, and the directories in it that are still to be visited."""

    identity: tuple[int, int]
    waiting: list[str]


def held(root: Path) -> Held:
    """What is below `root`, which is no link. What vanishes meanwhile is left out. Never raises.

    One descriptor is open at a time, whatever the depth: the way back is `..`. Where that leads elsewhere, because a directory
    was moved while we were in it, the look ends with what was found.
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
        self._linked: set[tuple[int, int]] = set()  # files with more than one name

    def level(self, fd: int) -> _Level:
        """Count a directory's own entries."""
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
            pass  # it was removed just now
        return _Level(_identity(own), waiting)


def _open(name: str, fd: int) -> int | None:
    """A directory, also one that its owner has closed to hide what it holds."""
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


def nameless_files(pids: Iterable[int], device: int) -> int:
    """Bytes of files without a name, on one disk, that the processes hold open."""
    return sum(_nameless(pids, lambda _, info: info.st_dev == device).values())


def memory_files(pids: Iterable[int]) -> int:
    """The same for files that are nowhere but in memory (memfd)."""
    return sum(_nameless(pids, lambda path, _: os.readlink(path).startswith("/memfd:")).values())  # noqa: PTH115 - a string


def _nameless(pids: Iterable[int], wanted: Callable[[str, os.stat_result], bool]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for path in descriptors(pids):
        with contextlib.suppress(OSError):
            info = os.stat(path)  # noqa: PTH116 - plain strings all along
            if not info.st_nlink and stat.S_ISREG(info.st_mode) and wanted(path, info):
                found[_identity(info)] = info.st_blocks * 512
    return found
