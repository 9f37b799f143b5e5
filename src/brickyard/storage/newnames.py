"""Whether a file system gives a name that must be new to one process alone, however many ask for it.

A commit to a table is such a name: Spark's side makes it with link(2) (runtime/node/java/AtomicMoves.java), and servers make the
workspace's keys in the same way. Some file systems of networks and in user space have no hard links, copy the file instead, or
replace the one that is there: there one commit would take the place of another, which was reported as written.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from brickyard.domain.errors import is_full_disk

MOUNTS = Path("/proc/self/mountinfo")
PROMISED = "ext4, XFS, Btrfs, or NFS 4"  # docs/data.md


def trouble(directories: Iterable[Path]) -> str:
    """Returns a sentence about the first directory whose file system does not do so; "" if all do. One of each file system is
    tried; missing ones are left out. Raises OSError where nothing can be written, unless the disk is full."""
    tried = set[int]()
    for directory in directories:
        if not directory.is_dir() or (device := directory.stat().st_dev) in tried:
            continue
        tried.add(device)
        if why := _trouble(directory):
            kind = filesystem_of(directory.resolve(), MOUNTS.read_text()) or "of an unknown type"
            return (
                f"the file system of {directory} ({kind}) {why}, so of two commits to one table, one could be lost. Use a "
                f"directory on {PROMISED}"
            )
    return ""


def _trouble(directory: Path) -> str:
    first, taken, new = (directory / f".new-names.{secrets.token_hex(8)}" for _ in range(3))
    try:
        for path in (first, taken):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with contextlib.suppress(FileExistsError):
            os.close(os.open(taken, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            return "creates a file that is there already"
        try:
            os.link(first, new)
        except OSError as error:
            return "" if is_full_disk(error) else f"has no hard links ({error.strerror})"
        if not first.samefile(new):
            return "makes a copy in the place of a hard link"
        with contextlib.suppress(FileExistsError):
            os.link(first, taken)
            return "replaces a file by a hard link of the same name"
    except OSError as error:
        if not is_full_disk(error):
            raise
    finally:
        for path in (first, taken, new):
            path.unlink(missing_ok=True)
    return ""


def filesystem_of(path: Path, mounts: str) -> str:
    """Returns the type of the file system with that path, such as "nfs4"; "" if it is not known. `mounts`: what MOUNTS says."""
    found, depth = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        top = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if path.is_relative_to(top) and len(top.parts) >= depth:  # of several at one place, the last one counts
            found, depth = after.split()[0], len(top.parts)
    return found
