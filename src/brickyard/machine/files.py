"""Handles files that hostile code may have made: never follows its links, never trusts its names, depths or sizes.

Everything works through directory descriptors, opened with O_NOFOLLOW one component at a time.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: opening a planted FIFO must not hang
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)

MAX_FILES = 200
MAX_DEPTH = 4
MAX_LOOKED_AT = 20_000  # entries of any kind: empty directories cost time as well
_AT_ONCE = 4096
_COPIED, _PIECE = 1 << 30, 1 << 20  # bytes at once: by the kernel, and through this process
_NOT_HERE = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # the kernel cannot copy between these files


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replaces `path` atomically: readers see the old or the new content, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Has the disk keep a file, or the names in a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_range(source: int, target: int, size: int, *, start: int = 0, at: int = 0) -> None:
    """Copies `size` bytes from `start` of one file to `at` of another. File systems that can share them do. Raises OSError, also
    if the source is shorter."""
    copy = getattr(os, "copy_file_range", None)  # Linux
    while size > 0:
        copied = 0
        if copy is not None:
            try:
                copied = copy(source, target, min(size, _COPIED), start, at)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                copy = None
        if copy is None:
            copied = os.pwrite(target, os.pread(source, min(size, _PIECE), start), at)
        if not copied:
            raise OSError(errno.EIO, "the file is shorter than what is to be copied of it")
        size, start, at = size - copied, start + copied, at + copied


def remove_tree(path: Path | str, *, dir_fd: int | None = None, limit_s: float = math.inf, keep: str = "") -> None:
    """Removes a directory with everything in it, whatever its depth, links and modes. A missing directory counts as removed.
    With `keep`, a name in the directory, that entry and the directory itself stay.

    Directories are moved to the top and emptied there, so depth costs neither stack nor descriptors.
    Raises OSError if something cannot be removed, and TimeoutError (a subclass) after `limit_s`; another call then continues.
    """
    try:
        root = open_directory(path, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    try:
        _Emptying(root, time.monotonic() + limit_s, keep).run()
    finally:
        os.close(root)
    if not keep:
        os.rmdir(path, dir_fd=dir_fd)


def make_empty(path: Path) -> None:
    """Makes an empty directory, replacing whatever is there."""
    try:
        remove_tree(path)
    except NotADirectoryError:
        path.unlink()
    path.mkdir(mode=0o700)


class Anchor:
    """Holds on to a directory that programs may move away, or put a link in the place of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, DIRECTORY)

    def close(self) -> None:
        os.close(self._fd)

    def restore(self) -> None:
        """Puts the directory back if it was moved elsewhere below its parent. No program may run that could do it again."""
        top = self._path.parent.resolve()
        where = Path(os.readlink(f"/proc/self/fd/{self._fd}"))  # noqa: PTH115 - not one that Path may follow
        if where == top / self._path.name or not where.is_relative_to(top) or not where.is_dir():
            return  # in its place, or removed
        aside = where.rename(top / f".{secrets.token_hex(16)}")  # it may be below what is in its place
        try:
            remove_tree(self._path)
        except NotADirectoryError:
            self._path.unlink()
        aside.rename(self._path)


def open_directory(path: Path | str, *, dir_fd: int | None = None) -> int:
    """Opens a directory that is not a link, after making it accessible to its owner."""
    if hasattr(os, "O_PATH"):
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISDIR(mode):
                raise NotADirectoryError(f"{path} is not a directory")
            if mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - by descriptor: the name could be swapped
        finally:
            os.close(handle)
    return os.open(path, DIRECTORY, dir_fd=dir_fd)


class _Emptying:
    """Removes the contents of a directory, until the deadline."""

    def __init__(self, root: int, deadline: float, keep: str) -> None:
        self._root = root
        self._keep = keep
        self._deadline = deadline
        self._moved = 0

    def run(self) -> None:
        while names := _some_names(self._root, self._keep):
            for name in names:
                if self._unlinked(name, self._root):
                    continue
                directory = open_directory(name, dir_fd=self._root)
                try:
                    self._hoist(directory)
                finally:
                    os.close(directory)
                os.rmdir(name, dir_fd=self._root)

    def _unlinked(self, name: str, directory: int) -> bool:
        """Whether the entry is gone; False means that it is a directory."""
        if time.monotonic() > self._deadline:
            raise TimeoutError(errno.ETIMEDOUT, "there is more than can be removed at once")
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            return False  # EISDIR on Linux, EPERM in POSIX
        return True

    def _hoist(self, directory: int) -> None:
        """Empties `directory`: unlinks its files and moves its directories up to the root under new names."""
        while names := _some_names(directory):
            for name in names:
                if self._unlinked(name, directory):
                    continue
                os.close(open_directory(name, dir_fd=directory))  # only an accessible directory can be moved
                while True:
                    self._moved += 1
                    try:
                        os.rename(name, f".{os.getpid()}.{self._moved}", src_dir_fd=directory, dst_dir_fd=self._root)
                        break
                    except OSError as error:
                        if error.errno not in _TAKEN:
                            raise  # otherwise hostile code has made that name: try the next


def _some_names(directory: int, but: str = "") -> list[str]:
    """Returns some of the names in a directory, since all of them may not fit into memory."""
    with os.scandir(directory) as entries:
        return list(itertools.islice((entry.name for entry in entries if entry.name != but), _AT_ONCE))


def list_files(root: Path) -> Iterator[tuple[str, int]]:
    """Yields `(relative name, bytes)` of the regular files below `root`, at most MAX_FILES files and MAX_DEPTH deep. Skips
    names that are not UTF-8, because no message could carry them."""
    try:
        top = os.open(root, DIRECTORY)
    except OSError:
        return
    try:
        yield from itertools.islice(_walk(top, "", MAX_DEPTH, itertools.repeat(None, MAX_LOOKED_AT)), MAX_FILES)
    finally:
        os.close(top)


def _walk(directory: int, prefix: str, depth: int, budget: Iterator[None]) -> Iterator[tuple[str, int]]:
    """`budget` yields one item per entry that may still be examined."""
    with os.scandir(directory) as entries:
        names = sorted(entry.name for _, entry in zip(budget, entries, strict=False))
    for entry in names:
        try:
            entry.encode()
            info = os.stat(entry, dir_fd=directory, follow_symlinks=False)
            inner = os.open(entry, DIRECTORY, dir_fd=directory) if stat.S_ISDIR(info.st_mode) and depth else None
        except (OSError, UnicodeEncodeError):
            continue
        if inner is not None:
            try:
                yield from _walk(inner, f"{prefix}{entry}/", depth - 1, budget)
            finally:
                os.close(inner)
        elif stat.S_ISREG(info.st_mode):
            yield prefix + entry, info.st_size


@contextlib.contextmanager
def descended(fd: int, parts: Iterable[str], *, make: bool = False) -> Iterator[int]:
    """Goes down from an open directory, which it closes, without following links. `make`: directories that are missing. Raises
    OSError, NotADirectoryError for a link."""
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
            inner = os.open(part, DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def directory_of(path: Path, *, below: Path) -> AbstractContextManager[int]:
    """A descriptor of the directory that a path is in. No link is followed on the way from `below`. Raises as `descended`."""
    top = os.open(below, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    return descended(top, path.relative_to(below).parts[:-1])


def open_below(root: Path, name: str) -> int:
    """Opens a file below `root` for reading, without following links. Raises OSError, or ValueError for a name that leads
    elsewhere."""
    parts = name.split("/")
    if not name or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is not the name of a log")
    fd = os.open(root, DIRECTORY)
    for index, part in enumerate(parts):
        try:
            inner = os.open(part, _FILE if index == len(parts) - 1 else DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def read_tail(root: Path, name: str, limit: int) -> bytes:
    """Returns the last `limit` bytes of a regular file below `root`. Raises OSError, or ValueError for a name that leads
    elsewhere."""
    with os.fdopen(open_below(root, name), "rb") as handle:
        info = os.fstat(handle.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{name!r} is not a regular file")
        handle.seek(max(0, info.st_size - limit))
        return handle.read(limit)
