"""A store of chunks: bytes under their SHA-256, compressed. Any number of snapshots share it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Protocol

import zstandard

from brickyard.storage.snapshots.syncing import Syncing

LEVEL = 3
MAX_CHUNK = 4 << 20  # bytes of a chunk before compression
_TEMPORARY = ".new-"
_THREADS = max(1, min(8, len(os.sched_getaffinity(0))))


class Damaged(Exception):
    """A chunk is missing or is not what its digest says. The message names it."""


class Room(Protocol):
    """How much may still be written."""

    def spend(self, size: int) -> None:
        """A new chunk will take so many bytes. Raises if they must not be written. For any thread."""
        ...


class ChunkStore:
    """The chunks below one directory. Methods block; those that write or read chunks may run on several threads.

    `writing` and `collect` exclude each other between processes: a chunk that a snapshot is about to name is never collected.
    Whatever has its name is whole and durable, so that another snapshot may rely on it.
    """

    def __init__(self, root: Path, *, room: Room | None = None) -> None:
        self._root = root
        self._room = room
        self._lock = threading.Lock()
        self._unsettled: dict[bytes, Path] = {}  # digests of what was put and has not got its name yet
        self._changed = set[Path]()  # directories with new names
        self._syncing: Syncing  # within `writing`
        self._local = threading.local()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """As long as this is open, nothing is collected. Put chunks, settle, and record who needs them, within it. Not to be
        nested."""
        with self._locked(fcntl.LOCK_SH), contextlib.ExitStack() as leftovers:
            leftovers.callback(self._drop)
            self._syncing = leftovers.enter_context(Syncing())
            yield

    def put(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Stores chunks, those that are not there. Returns their digests; nothing may name them before `settle`. Raises OSError.

        Give it several at a time: they are compressed side by side, without the interpreter's lock."""
        digests = [hashlib.sha256(each).digest() for each in chunks]
        if new := self._new(dict(zip(digests, chunks, strict=True))):
            packed = self._compressor().multi_compress_to_buffer(list(new.values()), threads=_THREADS)
            if self._room is not None:
                self._room.spend(packed.size())
            for number, digest in enumerate(new):
                self._write(digest, packed[number].tobytes())
        return digests

    def _new(self, chunks: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Those that are not there, and that nobody else stores now."""
        with self._lock:
            new = {
                digest: data
                for digest, data in chunks.items()
                if digest not in self._unsettled and not self._path(digest).exists()
            }
            for digest in new:
                path = self._path(digest)
                self._unsettled[digest] = path.with_name(f"{_TEMPORARY}{os.getpid()}-{threading.get_ident()}-{path.name}")
        return new

    def _write(self, digest: bytes, frame: bytes) -> None:
        path = self._path(digest)
        try:
            path.parent.mkdir(mode=0o700)
            self._changed.add(self._root)
        except FileExistsError:
            pass
        with self._unsettled[digest].open("wb") as file:
            file.write(frame)
            file.flush()
            self._syncing.add(os.dup(file.fileno()), lambda: self._name(digest, path))

    def settle(self) -> None:
        """When this returns, every chunk that was put is durable. Raises OSError."""
        self._syncing.settle()
        for directory in self._changed:
            self._syncing.add(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        self._changed.clear()
        self._syncing.settle()

    def _name(self, digest: bytes, path: Path) -> None:
        with self._lock:
            self._unsettled[digest].replace(path)
            del self._unsettled[digest]
            self._changed.add(path.parent)

    def _drop(self) -> None:
        """Removes what was not settled."""
        for temporary in self._unsettled.values():
            temporary.unlink(missing_ok=True)
        self._unsettled.clear()

    def _compressor(self) -> zstandard.ZstdCompressor:
        """One for each thread: making one takes as long as compressing some kilobytes."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(level=LEVEL)
        made: zstandard.ZstdCompressor = self._local.compressor
        return made

    def get(self, digest: bytes) -> bytes:
        """The chunk. Raises Damaged."""
        try:
            data = zstandard.ZstdDecompressor().decompress(self._path(digest).read_bytes(), max_output_size=MAX_CHUNK)
        except FileNotFoundError:
            raise Damaged(f"chunk {digest.hex()} is missing") from None
        except zstandard.ZstdError:
            raise Damaged(f"chunk {digest.hex()} cannot be decompressed") from None
        if hashlib.sha256(data).digest() != digest:
            raise Damaged(f"chunk {digest.hex()} has another content")
        return data

    def stored(self, digests: Set[bytes]) -> int:
        """How many bytes these take on the disk."""
        total = 0
        for digest in digests:
            with contextlib.suppress(FileNotFoundError):
                total += self._path(digest).stat().st_size
        return total

    def size(self) -> int:
        """How many bytes all chunks take. Others may write and collect meanwhile."""
        total = 0
        for directory in [path for path in self._root.iterdir() if path.is_dir()] if self._root.is_dir() else ():
            with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # it has got its name, or was removed
                        total += entry.stat().st_size
        return total

    def collect(self, needed: Set[bytes]) -> int:
        """Removes every chunk but these; waits until nobody writes. Returns how many bytes this has freed.

        Read `needed` inside of `collecting` so that no snapshot is forgotten."""
        freed = 0
        for directory in sorted(path for path in self._root.iterdir() if path.is_dir()):
            for path in sorted(directory.iterdir()):
                if path.name.startswith(_TEMPORARY) or bytes.fromhex(path.name) not in needed:
                    with contextlib.suppress(FileNotFoundError):
                        freed += path.stat().st_size
                        path.unlink()
            with contextlib.suppress(OSError):
                directory.rmdir()  # only if it is empty
        return freed

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Waits until nobody writes; nobody begins to write before this ends."""
        with self._locked(fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._root / name[:2] / name
