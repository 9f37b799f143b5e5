"""Walks the workspace's files in an order in which a copy of them fits together, although they change meanwhile.

A version of a Delta or Iceberg table is a file of its log, which is written after all that it names. So a log is read before the
rest of its table: what its newest version names is there then, and is copied later. Of a log's own versions, those that were
there at one moment are taken, without a gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from brickyard.machine import files
from brickyard.machine.bundles import Unreadable

LOGS = ("_delta_log", "metadata")
_POINTERS = ("_last_checkpoint", "version-hint.text")  # name a version: read before the versions are


def walk(top: Path, *, skips: Callable[[Path], bool] = lambda _: False) -> Iterator[Path]:
    """Yields the directory and everything below it, a directory before what is in it. What disappears meanwhile is missing.
    `skips`: directories of which only the names are of interest. Raises Unreadable."""
    left = [top]
    while left:
        path = left.pop()
        yield path
        if skips(path):
            continue
        if path.name in LOGS:
            yield from (path / name for name in _POINTERS)  # read before the versions are looked for
        names = _log_names(path, top) if path.name in LOGS else _names(path, top)
        left.extend(path / name for name in sorted(names, key=lambda name: (name in LOGS, name)))  # the last one comes next


def in_log(name: str) -> str:
    """The log that a file with this relative path is a version in; "" if it is none."""
    above, _, last = name.rpartition("/")
    return above if above.rpartition("/")[2] in LOGS and last not in _POINTERS else ""


def _log_names(path: Path, top: Path) -> list[str]:
    """A listing may miss a version that is written meanwhile, or what one names, and have a later version. A second listing
    misses nothing that was there before the first one ended."""
    seen = {name for name in _names(path, top) if name.endswith(".json")}
    last = max((name for name in seen if name[:1].isdigit()), default="")
    return [
        name
        for name in _names(path, top)
        if name not in _POINTERS and (not name.endswith(".json") or name in seen or (name[:1].isdigit() and name < last))
    ]


def _names(path: Path, top: Path) -> list[str]:
    """What is in a directory; nothing for anything else, and for what programs have put a link in the place of."""
    try:
        with files.directory_of(path, below=top.parent) as above:
            directory = os.open(path.name, files.DIRECTORY, dir_fd=above)
        try:
            return os.listdir(directory)  # noqa: PTH208 - by descriptor
        finally:
            os.close(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror}") from error
