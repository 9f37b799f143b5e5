"""Files that hostile code has had in its hands: never follow a link it planted, never trust a name, a depth or a size.

Everything here works through directory descriptors, opened with O_NOFOLLOW one component at a time.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: opening a planted FIFO must not hang
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)

MAX_FILES = 200
MAX_DEPTH = 4
MAX_LOOKED_AT = 20_000  # entries, of whatever kind: empty directories cost time as well
_AT_ONCE = 4096
MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 64 << 20
EVENTS = "eventlog/"  # Spark's event logs: of use as a whole or not at all
MAX_EVENTS_BYTES = 64 << 20


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace `path` in one step: readers see the old or the new content, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_tree(path: Path | str, *, dir_fd: int | None = None, limit_s: float = math.inf, keep: str = "") -> None:
    """Remove a directory with all that is in it, whatever its depth, its links and its modes. A missing one is a success.
    With `keep`, a name in it, that and the directory itself stay.

    Directories are moved to the top and emptied there, so that depth costs neither stack nor descriptors.
    Raises OSError when something cannot be removed, and TimeoutError (which is one) after `limit_s`: another call goes on there.
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
    """Make an empty directory in the place of whatever is there."""
    try:
        remove_tree(path)
    except NotADirectoryError:
        path.unlink()
    path.mkdir(mode=0o700)


def open_directory(path: Path | str, *, dir_fd: int | None = None) -> int:
    """A descriptor of a directory that is no link, made accessible to its owner first."""
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
    return os.open(path, _DIRECTORY, dir_fd=dir_fd)


class _Emptying:
    """Removes what is in a directory, until the deadline."""

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
        """Whether it is gone; False: it is a directory."""
        if time.monotonic() > self._deadline:
            raise TimeoutError(errno.ETIMEDOUT, "there is more than can be removed at once")
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            return False  # EISDIR on Linux, EPERM by POSIX
        return True

    def _hoist(self, directory: int) -> None:
        """Empty `directory`: unlink its files, move its directories up to the root under new names."""
        while names := _some_names(directory):
            for name in names:
                if self._unlinked(name, directory):
                    continue
                os.close(open_directory(name, dir_fd=directory))  # only an accessible directory can be moved elsewhere
                while True:
                    self._moved += 1
                    try:
                        os.rename(name, f".{os.getpid()}.{self._moved}", src_dir_fd=directory, dst_dir_fd=self._root)
                        break
                    except OSError as error:
                        if error.errno not in _TAKEN:
                            raise  # otherwise that name was planted; take the next


def _some_names(directory: int, but: str = "") -> list[str]:
    """Names in a directory; a directory may have more of them than fit into memory."""
    with os.scandir(directory) as entries:
        return list(itertools.islice((entry.name for entry in entries if entry.name != but), _AT_ONCE))


def list_files(root: Path) -> Iterator[tuple[str, int]]:
    """`(relative name, bytes)` of the regular files below `root`, at most MAX_FILES of them, MAX_DEPTH deep. A name that is not
    UTF-8, which no message could carry, is not there."""
    try:
        top = os.open(root, _DIRECTORY)
    except OSError:
        return
    try:
        yield from itertools.islice(_walk(top, "", MAX_DEPTH, itertools.repeat(None, MAX_LOOKED_AT)), MAX_FILES)
    finally:
        os.close(top)


def _walk(directory: int, prefix: str, depth: int, budget: Iterator[None]) -> Iterator[tuple[str, int]]:
    """`budget` has an item for every entry that may still be looked at."""
    with os.scandir(directory) as entries:
        names = sorted(entry.name for _, entry in zip(budget, entries, strict=False))
    for entry in names:
        try:
            entry.encode()
            info = os.stat(entry, dir_fd=directory, follow_symlinks=False)
            inner = os.open(entry, _DIRECTORY, dir_fd=directory) if stat.S_ISDIR(info.st_mode) and depth else None
        except (OSError, UnicodeEncodeError):
            continue
        if inner is not None:
            try:
                yield from _walk(inner, f"{prefix}{entry}/", depth - 1, budget)
            finally:
                os.close(inner)
        elif stat.S_ISREG(info.st_mode):
            yield prefix + entry, info.st_size


def read_tail(root: Path, name: str, limit: int) -> bytes:
    """The last `limit` bytes of a regular file below `root`. Raises OSError; ValueError for a name that leads elsewhere."""
    parts = name.split("/")
    if not name or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is not the name of a log")
    fd = os.open(root, _DIRECTORY)
    for index, part in enumerate(parts):
        try:
            inner = os.open(part, _FILE if index == len(parts) - 1 else _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    with os.fdopen(fd, "rb") as handle:
        info = os.fstat(handle.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{name!r} is not a regular file")
        handle.seek(max(0, info.st_size - limit))
        return handle.read(limit)


def keep_logs(source: Path, target: Path) -> int:
    """Copy the end of every log below `source` to `target`, within the limits above. Best effort; returns how many were kept."""
    kept = total = events = 0
    for name, size in list(list_files(source)):
        whole = name.startswith(EVENTS)
        if whole and events + size > MAX_EVENTS_BYTES:
            continue
        try:
            data = read_tail(source, name, MAX_EVENTS_BYTES if whole else min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - total))
            destination = target / name
            destination.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(destination, data)
        except (OSError, ValueError):
            continue
        kept += 1
        if whole:
            events += len(data)
            continue
        total += len(data)
        if total >= MAX_TOTAL_BYTES:
            break
    return kept


def keep_node_logs(directory: Path, logs_dir: Path, *, instance_id: str, cluster_id: str, generation: int) -> None:
    """Copy a node's logs to where they stay. Also used by whoever cleans up after an agent that was killed."""
    target = logs_dir / Path(cluster_id or "unknown").name / f"{instance_id}-{generation}"
    with contextlib.suppress(OSError):
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        keep_logs(directory / "node" / "logs", target)
        for name in ("node.log.1", "node.log"):
            if (directory / name).exists():
                write_atomic(target / name.replace("node.log", "agent.log"), read_tail(directory, name, MAX_FILE_BYTES))
