"""Takes a snapshot of a directory that users' code has written, and perhaps still writes.

The snapshot shows the directory at one moment: each file is read while it does not change, and when all have been read, nothing
may have changed since the beginning. Otherwise it is refused, with a name. No link is followed. A file that is as it was in an
earlier snapshot is not read again; its ctime says so, which programs cannot set.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from fastcdc.fastcdc_cy import fastcdc_cy

from brickyard.storage.snapshots.chunks import MAX_CHUNK, ChunkStore
from brickyard.storage.snapshots.manifest import Directory, File, Link, Manifest, Part, Stamp

SMALL = 512 << 10  # bytes; smaller files share chunks
AVERAGE, SMALLEST = 1 << 20, 256 << 10
WINDOW = 16 << 20  # how much of a large file is looked at together
MAX_DEPTH = 256
TICK_NS = 50_000_000  # kernels count ctime in ticks of up to 10 ms: two changes within one look like one
TRIES = 5
_BATCH = 8 << 20  # bytes of chunks that are stored together
_AHEAD = 2  # batches that wait to be stored: memory stays bounded
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: opening a planted FIFO must not hang


class Refused(Exception):
    """This directory cannot be taken. The message says what is in the way."""


class TooLarge(Refused):
    """There is more in it than allowed."""


class Limits(NamedTuple):
    """What a snapshot may hold at most."""

    bytes: int
    files: int = 1_000_000


class _Entry(NamedTuple):
    path: bytes
    info: os.stat_result


def take(
    source: Path,
    store: ChunkStore,
    *,
    limits: Limits,
    before: Manifest | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Manifest:
    """A snapshot of what is below `source`, with its contents in the store. Call it within `store.writing()`.

    `before`: an earlier snapshot of the same directory. `progress` is told bytes that have been read. Raises Refused and OSError.
    """
    root = os.open(source, _DIRECTORY)
    try:
        with ThreadPoolExecutor(1) as threads:
            return _Taking(root, store, limits=limits, before=before, progress=progress, threads=threads).run()
    finally:
        os.close(root)


class _Taking:
    def __init__(
        self,
        root: int,
        store: ChunkStore,
        *,
        limits: Limits,
        before: Manifest | None,
        progress: Callable[[int], None],
        threads: ThreadPoolExecutor,
    ) -> None:
        self._root = root
        self._store = store
        self._limits = limits
        self._before = before
        self._known = {file.path: file for file in before.files} if before is not None else {}
        self._progress = progress
        self._threads = threads
        self._batch: dict[int, bytes] = {}  # the last chunks, by their indices
        self._batched = 0  # bytes of them
        self._pending: deque[tuple[Sequence[int], Future[list[bytes]]]] = deque()
        self._chunks: list[bytes] = []  # digests; b"" until it is stored
        self._again: dict[bytes, int] = {}  # chunk of `before` -> its index here
        self._bundle = bytearray()  # small files that will be one chunk
        self._bundled: list[tuple[_Entry, int]] = []  # with the offset of each
        self._files: list[File] = []

    def run(self) -> Manifest:
        began_ns = time.time_ns()
        directories, links, left_out = [], [], []
        seen: dict[bytes, tuple[int, int, int]] = {}
        for entry in self._walk():
            mode, path = entry.info.st_mode, entry.path
            seen[path] = _identity(entry.info)
            if stat.S_ISDIR(mode):
                directories.append(Directory(path, stat.S_IMODE(mode), entry.info.st_mtime_ns))
            elif stat.S_ISREG(mode):
                seen[path] = _identity(self._file(entry))
            elif stat.S_ISLNK(mode):
                links.append(Link(path, self._target(path)))
            else:
                left_out.append(path)
        self._flush()
        self._send()
        self._settle(0)
        self._store.settle()
        self._check_unchanged(seen)
        return Manifest(
            taken_ns=began_ns,
            chunks=tuple(self._chunks),
            directories=tuple(directories),
            files=tuple(sorted(self._files, key=lambda file: file.path)),
            links=tuple(links),
            left_out=tuple(left_out),
        )

    # ── the tree ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _walk(self) -> Iterator[_Entry]:
        """Everything below the root, by name, directories before their contents. Raises Refused."""
        size = 0
        for count, entry in enumerate(_below(self._root, b"", MAX_DEPTH), 1):
            size += entry.info.st_size if stat.S_ISREG(entry.info.st_mode) else 0
            if count > self._limits.files:
                raise TooLarge(f"there are more than {self._limits.files} files and directories")
            if size > self._limits.bytes:
                raise TooLarge(f"there are more than {self._limits.bytes} bytes")
            yield entry

    def _check_unchanged(self, seen: dict[bytes, tuple[int, int, int]]) -> None:
        for entry in self._walk():
            if seen.pop(entry.path, None) != _identity(entry.info):
                raise Refused(f"{_shown(entry.path)} was written while the snapshot was taken")
        for path in seen:
            raise Refused(f"{_shown(path)} was removed while the snapshot was taken")

    def _target(self, path: bytes) -> bytes:
        try:
            return os.readlink(path, dir_fd=self._root)
        except FileNotFoundError:
            raise Refused(f"{_shown(path)} was removed while the snapshot was taken") from None

    # ── contents ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _file(self, entry: _Entry) -> os.stat_result:
        """Takes one file. Returns its state, in which it was read."""
        known = self._known.get(entry.path)
        if known is not None and (known.size, known.stamp) == (entry.info.st_size, _stamp(entry.info)):
            parts = tuple(Part(self._reused(part.chunk), part.offset, part.length) for part in known.parts)
            self._files.append(_described(entry, parts))
            return entry.info
        for _ in range(TRIES):
            fd = self._open(entry.path)
            try:
                info = _calm(fd, entry.path)
                entry = _Entry(entry.path, info)
                if info.st_size < SMALL:
                    data = _all(fd, info.st_size)
                    if _identity(os.fstat(fd)) == _identity(info):
                        self._small(entry, data)
                        return info
                else:
                    parts = self._large(fd, info.st_size)
                    if _identity(os.fstat(fd)) == _identity(info):
                        self._files.append(_described(entry, parts))
                        return info
            finally:
                os.close(fd)
        raise Refused(f"{_shown(entry.path)} is being written")

    def _open(self, path: bytes) -> int:
        try:
            fd = os.open(path, _FILE, dir_fd=self._root)
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(f"{_shown(path)} was removed while the snapshot was taken") from None
        except OSError as error:
            raise Refused(f"{_shown(path)} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Refused(f"{_shown(path)} was replaced while the snapshot was taken")
        return fd

    def _reused(self, chunk: int) -> int:
        assert self._before is not None  # noqa: S101 - only its files are reused
        digest = self._before.chunks[chunk]
        if digest not in self._again:
            self._again[digest] = len(self._chunks)
            self._chunks.append(digest)
        return self._again[digest]

    def _small(self, entry: _Entry, data: bytes) -> None:
        if len(self._bundle) + len(data) > AVERAGE:
            self._flush()
        self._bundled.append((entry, len(self._bundle)))
        self._bundle += data

    def _flush(self) -> None:
        """Makes a chunk of the small files so far."""
        if not self._bundled:
            return
        chunk = self._put(bytes(self._bundle)) if self._bundle else -1
        for entry, offset in self._bundled:
            size = entry.info.st_size
            self._files.append(_described(entry, (Part(chunk, offset, size),) if size else ()))
        self._bundle.clear()
        self._bundled.clear()

    def _large(self, fd: int, size: int) -> tuple[Part, ...]:
        parts: list[Part] = []
        rest, position = b"", 0
        while position < size or rest:
            window = rest + _read(fd, position, min(WINDOW, size - position))
            grown = len(window) - len(rest)
            position += grown
            if not window or (not grown and position < size):
                break  # it has become shorter, which the caller sees
            cuts = list(fastcdc_cy(window, SMALLEST, AVERAGE, MAX_CHUNK, False, None))
            last = position >= size
            for cut in cuts if last else cuts[:-1]:  # where the last one ends depends on what follows
                data = window[cut.offset : cut.offset + cut.length]
                parts.append(Part(self._put(data), 0, len(data)))
            rest = b"" if last else window[cuts[-1].offset :]
        return tuple(parts)

    def _put(self, data: bytes) -> int:
        index = len(self._chunks)
        self._chunks.append(b"")
        self._batch[index] = data
        self._batched += len(data)
        if self._batched >= _BATCH:
            self._send()
        self._progress(len(data))
        return index

    def _send(self) -> None:
        """Has the last chunks stored."""
        if self._batch:
            self._pending.append((tuple(self._batch), self._threads.submit(self._store.put, tuple(self._batch.values()))))
            self._batch, self._batched = {}, 0
            self._settle(_AHEAD)

    def _settle(self, left: int) -> None:
        """Waits until at most so many batches are yet to be stored."""
        while len(self._pending) > left:
            indices, stored = self._pending.popleft()
            for index, digest in zip(indices, stored.result(), strict=True):
                self._chunks[index] = digest


def _below(directory: int, prefix: bytes, depth: int) -> Iterator[_Entry]:
    if not depth:
        raise Refused(f"{_shown(prefix)} is more than {MAX_DEPTH} directories deep")
    with os.scandir(directory) as entries:
        names = sorted(os.fsencode(entry.name) for entry in entries)
    for name in names:
        path = prefix + name
        try:
            info = os.stat(name, dir_fd=directory, follow_symlinks=False)
            yield _Entry(path, info)
            if stat.S_ISDIR(info.st_mode):
                inner = os.open(name, _DIRECTORY, dir_fd=directory)
                try:
                    yield from _below(inner, path + b"/", depth - 1)
                finally:
                    os.close(inner)
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(f"{_shown(path)} was removed while the snapshot was taken") from None
        except PermissionError as error:
            raise Refused(f"{_shown(path)} cannot be read: {error.strerror}") from error


def _calm(fd: int, path: bytes) -> os.stat_result:
    """The file's state, once a change from now on would show in its ctime. Raises Refused if it is always being changed."""
    for _ in range(TRIES):
        info = os.fstat(fd)
        if (wait_ns := info.st_ctime_ns + TICK_NS - time.time_ns()) <= 0:
            return info
        time.sleep(min(wait_ns, TICK_NS) / 1e9)
    raise Refused(f"{_shown(path)} is being written")


def _read(fd: int, position: int, length: int) -> bytes:
    pieces = []
    while length and (piece := os.pread(fd, length, position)):
        pieces.append(piece)
        position, length = position + len(piece), length - len(piece)
    return b"".join(pieces)


def _all(fd: int, size: int) -> bytes:
    return _read(fd, 0, size)


def _identity(info: os.stat_result) -> tuple[int, int, int]:
    """What tells whether an entry has changed. A directory's ctime changes with every name in it."""
    return info.st_ino, info.st_ctime_ns, info.st_mode


def _stamp(info: os.stat_result) -> Stamp:
    return Stamp(info.st_ino, info.st_ctime_ns)


def _described(entry: _Entry, parts: tuple[Part, ...]) -> File:
    info = entry.info
    mode = stat.S_IMODE(info.st_mode) & 0o1777  # no set-user-ID and set-group-ID bits
    return File(entry.path, mode, info.st_mtime_ns, info.st_size, _stamp(info), parts)


def _shown(path: bytes) -> str:
    return repr(path.decode(errors="replace"))
