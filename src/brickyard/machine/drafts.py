"""A file that appears under its name when it is complete, with whatever its making needs beside it until then."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from brickyard.machine import files

_SUFFIX = ".partial"


@contextlib.contextmanager
def drafted(file: Path) -> Iterator[Path]:
    """Yields a directory beside the file, in which the block makes one of the same name. That is moved to its place when the
    block ends without an error. The directory is removed in any case, and so are those of processes that were killed. Raises
    OSError."""
    _remove_dead(file.parent)
    draft = file.with_name(f".{file.name}{_SUFFIX}")
    draft.mkdir(mode=0o700)
    handle = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield draft
        files.sync(draft / file.name)  # the content is on the disk before its name is
        (draft / file.name).rename(file)
        files.sync(file.parent)
    finally:
        with contextlib.suppress(OSError):
            files.remove_tree(draft)
        os.close(handle)


def _remove_dead(directory: Path) -> None:
    for path in directory.glob(f".*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                files.remove_tree(path)
            finally:
                os.close(handle)
