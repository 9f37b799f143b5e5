"""Writes what a snapshot holds into a new directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from brickyard.storage.snapshots.chunks import ChunkStore, Damaged
from brickyard.storage.snapshots.manifest import Manifest
from brickyard.storage.snapshots.syncing import Syncing

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def restore(manifest: Manifest, store: ChunkStore, target: Path, progress: Callable[[int], None] = lambda _: None) -> None:
    """Makes `target`, which must not exist, and everything below it. Nothing outside is written, whatever the names are.

    Cut off anywhere, it leaves a directory that is not complete: remove it, and begin anew. Raises Damaged and OSError.
    """
    target.mkdir(mode=0o700)
    root = os.open(target, _DIRECTORY)
    try:
        with Syncing() as syncing:
            _restore(manifest, store, root, syncing, progress)
            syncing.settle()
        os.fsync(root)
    finally:
        os.close(root)


def _restore(manifest: Manifest, store: ChunkStore, root: int, syncing: Syncing, progress: Callable[[int], None]) -> None:
    for directory in manifest.directories:
        os.mkdir(_checked(directory.path), 0o700, dir_fd=root)
    last: tuple[int, bytes] = (-1, b"")  # small files share chunks, one after another
    for file in manifest.files:
        fd = os.open(_checked(file.path), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)
        with os.fdopen(fd, "wb") as out:
            for part in file.parts:
                if last[0] != part.chunk:
                    last = part.chunk, store.get(manifest.chunks[part.chunk])
                data = last[1][part.offset : part.offset + part.length]
                if len(data) != part.length:
                    raise Damaged(f"chunk {manifest.chunks[part.chunk].hex()} is too short")
                out.write(data)
                progress(len(data))
            out.flush()
            os.fchmod(fd, file.mode)
            os.utime(fd, ns=(file.modified_ns, file.modified_ns))
            syncing.add(os.dup(fd))
    for link in manifest.links:  # after the files: no file is written through one
        os.symlink(link.target, _checked(link.path), dir_fd=root)
    for directory in reversed(manifest.directories):  # from the inside: a directory may be read-only
        fd = os.open(directory.path, _DIRECTORY, dir_fd=root)
        os.utime(fd, ns=(directory.modified_ns, directory.modified_ns))
        os.fchmod(fd, directory.mode)
        syncing.add(fd)


def _checked(path: bytes) -> bytes:
    """Raises Damaged for a name that leads elsewhere: a manifest could have been made by somebody else."""
    if not path or path.startswith(b"/") or b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
        raise Damaged(f"the name {path!r} is not a relative path")
    return path
