"""Files below one directory whose contents hostile code may change at any moment.

Every path component is opened relative to the previous one and without following symbolic links, so nothing that anyone puts
into the tree, at any time, leads out of it. Only directories and regular files with UTF-8 names exist here; anything else counts
as missing.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from brickyard.machine import files
from brickyard.storage.labels import Label, label_of, put_label

REMOVE_S = 40.0  # less than clients' timeouts
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # O_NONBLOCK: a FIFO must not block us

Parts = Sequence[str]  # names from the root down; never "", ".", ".." and never with a slash


class Entry(NamedTuple):
    """Size in bytes (0 for a directory), time in epoch milliseconds."""

    parts: tuple[str, ...]
    is_dir: bool
    size: int
    modified_ms: int


class SafeTree:
    """Methods block, and raise OSError: FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, ..."""

    def __init__(self, *, root: Path) -> None:
        self._root = root

    def stat(self, parts: Parts) -> Entry:
        """The entry at a path."""
        if not parts:
            with self._directory(()) as top:
                return _entry((), os.fstat(top))
        with self._directory(parts[:-1]) as parent:
            return _entry(tuple(parts), os.stat(parts[-1], dir_fd=parent, follow_symlinks=False))

    def page(self, parts: Parts, *, after: str, limit: int) -> tuple[list[Entry], str]:
        """At most `limit` entries of a directory by name, from the first one after `after`, and the `after` of the next page; ""
        if this is the last one."""
        with self._directory(parts) as directory:
            with os.scandir(directory) as entries:
                wanted = (each.name for each in entries if each.name > after and _is_text(each.name))
                names = heapq.nsmallest(limit + 1, wanted)
            found = []
            for name in names[:limit]:
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile, or neither file nor directory
                    found.append(_entry((*parts, name), os.stat(name, dir_fd=directory, follow_symlinks=False)))
        return found, names[limit - 1] if len(names) > limit else ""

    def list(self, parts: Parts) -> list[Entry]:
        """The entries of a directory by name, or the file itself."""
        if not self.stat(parts).is_dir:
            return [self.stat(parts)]
        found = []
        with self._directory(parts) as directory, os.scandir(directory) as entries:
            for each in entries:
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile, or neither file nor directory
                    if _is_text(each.name):
                        found.append(_entry((*parts, each.name), each.stat(follow_symlinks=False)))
        return sorted(found)

    def make_directories(self, parts: Parts, *, existing: int = 0) -> None:
        """Creates a directory and its missing parents; existing ones stay. The first `existing` names must exist."""
        with self._directory(parts, make=True, existing=existing):
            pass

    def make_directory(self, parts: Parts) -> None:
        """Creates a directory that does not exist, and its missing parents."""
        with self._directory(parts[:-1], make=True) as parent:
            os.mkdir(parts[-1], dir_fd=parent)

    def open(self, parts: Parts) -> tuple[int, Entry]:
        """Opens a file for reading. The caller closes the descriptor."""
        with self._open(parts, os.O_RDONLY) as file:
            return os.dup(file), _entry(tuple(parts), os.fstat(file))

    @contextlib.contextmanager
    def opened(self, entry: Entry) -> Iterator[int]:
        """A descriptor of a file, for reading, or of a directory."""
        with self._directory(entry.parts) if entry.is_dir else self._open(entry.parts, os.O_RDONLY) as descriptor:
            yield descriptor

    def label(self, parts: Parts, label: Label) -> None:
        """Replaces what is kept beside the content of a file or directory. Raises InvalidParameterValue."""
        with self.opened(self.stat(parts)) as descriptor:
            put_label(descriptor, label)

    def read(self, parts: Parts, offset: int, length: int) -> bytes:
        """Reads part of a file; the result is short or empty at its end."""
        with self._open(parts, os.O_RDONLY) as file:
            return os.pread(file, length, offset)

    def bring(self, source: Path, target: Parts, *, replace: bool, existing: int = 0) -> None:
        """Moves a file from outside the tree to a path, where it appears complete. Overwrites only if `replace`. Creates missing
        directories, except for the first `existing` names."""
        with self._directory(target[:-1], make=True, existing=existing) as parent:
            try:
                _settle(str(source), target[-1], None, parent, replace=replace)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                draft = f".{secrets.token_hex(16)}"  # the tree is on another disk: copy the file there first
                try:
                    made = os.open(draft, _FILE | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=parent)
                    with source.open("rb") as data, os.fdopen(made, "wb") as copy:
                        shutil.copyfileobj(data, copy)
                        put_label(copy.fileno(), label_of(data.fileno()))
                    _settle(draft, target[-1], parent, parent, replace=replace)
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(draft, dir_fd=parent)
                source.unlink()

    def move(self, source: Parts, target: Parts, *, replace: bool) -> None:
        """Moves a file or directory. Replaces a file only if `replace`, and a directory never."""
        with self._directory(source[:-1]) as origin, self._directory(target[:-1], make=True) as parent:
            info = _entry(tuple(source), os.stat(source[-1], dir_fd=origin, follow_symlinks=False))
            if not info.is_dir:
                _settle(source[-1], target[-1], origin, parent, replace=replace)
            else:
                os.mkdir(target[-1], dir_fd=parent)  # a directory may replace an empty one, such as this one
                os.rename(source[-1], target[-1], src_dir_fd=origin, dst_dir_fd=parent)

    def remove(self, parts: Parts, *, recursive: bool) -> None:
        """Removes a file or a directory; a non-empty one only if `recursive`. Raises TimeoutError if another call must continue:
        removing a large tree may take longer than any client waits."""
        is_dir = self.stat(parts).is_dir
        with self._directory(parts[:-1]) as parent:
            if not is_dir:
                os.unlink(parts[-1], dir_fd=parent)
            elif recursive:
                files.remove_tree(parts[-1], dir_fd=parent, limit_s=REMOVE_S)
            else:
                os.rmdir(parts[-1], dir_fd=parent)

    @contextlib.contextmanager
    def _directory(self, parts: Parts, *, make: bool = False, existing: int = 0) -> Iterator[int]:
        """A descriptor of the directory at a path."""
        current = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for number, name in enumerate(parts):
                if make and number >= existing:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=current)
                try:
                    following = os.open(name, _DIRECTORY, dir_fd=current)
                except NotADirectoryError as error:  # a file or a link
                    if make:
                        raise
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    @contextlib.contextmanager
    def _open(self, parts: Parts, flags: int) -> Iterator[int]:
        with self._directory(parts[:-1]) as parent:
            try:
                file = os.open(parts[-1], _FILE | flags, dir_fd=parent)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), parts[-1]) from error
                raise
        try:
            mode = os.fstat(file).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), parts[-1])
            if not stat.S_ISREG(mode):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), parts[-1])
            yield file
        finally:
            os.close(file)


def _settle(source: str, target: str, origin: int | None, parent: int, *, replace: bool) -> None:
    """Moves a file on the same disk. Raises FileExistsError if the target exists and may not be replaced."""
    if replace:
        os.rename(source, target, src_dir_fd=origin, dst_dir_fd=parent)
    else:
        # A link fails if the target exists, even if it was created a moment ago; a rename would replace it.
        os.link(source, target, src_dir_fd=origin, dst_dir_fd=parent, follow_symlinks=False)
        os.unlink(source, dir_fd=origin)


def _is_text(name: str) -> bool:
    """Whether the name is UTF-8, so that clients can name the entry."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry(parts: tuple[str, ...], info: os.stat_result) -> Entry:
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), parts[-1] if parts else "/")
    is_dir = stat.S_ISDIR(info.st_mode)
    return Entry(parts, is_dir, 0 if is_dir else info.st_size, info.st_mtime_ns // 1_000_000)
