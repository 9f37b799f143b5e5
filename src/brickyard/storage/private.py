"""Private files that are written atomically, and the directories that hold them."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from brickyard.domain.errors import is_full_disk
from brickyard.machine import files, measure
from brickyard.machine.disk import Amount

NEEDED = Amount(16 * 2**20, 256)  # a new database with its write-ahead log, the lines of one start in server.log; directories


class WorkspaceError(Exception):
    """The data directory or the storage cannot be used. The message is one line: why, and what to do."""


def prepare(place: Path, *, known: bool, called: str, remedy: str) -> str:
    """Makes a directory that only its owner can use, and checks that it can be worked in. Raises WorkspaceError.

    `known`: a workspace is in it already, so a full disk does not keep its server from starting: nothing but the server can end
    what fills the disk, and what it writes has its room (store/reserve.py). Returns why the disk is full then, else "".
    """
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (owner := place.stat().st_uid) != os.geteuid() and os.geteuid():
            raise WorkspaceError(
                f"cannot use the {called} {place}: it belongs to user {owner}, and this server runs as user {os.geteuid()}. Use "
                f"a directory inside it that the server can create, such as {place / 'data'} (volumes in containers belong to "
                f"root), change its owner, or {remedy}."
            )
        place.chmod(0o700)
        probe = place / f".writable.{secrets.token_hex(8)}"
        refused = ""
        try:
            probe.write_bytes(b"x" * 4096)  # a quota shows only here
        except OSError as error:
            if not (known and is_full_disk(error)):
                raise
            refused = str(error.strerror)
        finally:
            probe.unlink(missing_ok=True)
        disk = measure.disk(place)
    except OSError as error:
        raise unusable(place, error, called=called, remedy=remedy) from error
    lack = disk.lack(NEEDED)
    if lack is None and not refused:
        return ""
    why = f"the disk of the {called} {place} is full: {disk.left(lack) if lack is not None else refused}"
    if known or lack is None:
        return why
    raise WorkspaceError(f"{why}, and a server needs {NEEDED.text(lack)} to start. Free space there, or {remedy}.")


def unusable(place: Path, error: OSError, *, called: str, remedy: str) -> WorkspaceError:
    """The error for a directory that cannot be used."""
    above = next((each for each in (place, *place.parents) if os.path.lexists(each)), place)
    if isinstance(error, FileExistsError | NotADirectoryError) and not above.is_dir():
        why, first = f"{above} is a file, not a directory", "Remove it"
    else:
        why, first = str(error.strerror or error), "Free space there, fix its owner"
    return WorkspaceError(f"cannot use the {called} {place}: {why}. {first}, or {remedy}.")


def write_private(path: Path, text: str) -> None:
    """Writes the whole file or nothing, readable only by its owner, and synced to disk before it takes effect. Raises OSError."""
    draft = _draft(path, text)
    try:
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    files.sync(path.parent)


def write_over(path: Path, text: str) -> None:
    """`write_private`, or, on a full disk, in the place of the file that is there, which needs no room. Raises OSError."""
    try:
        write_private(path, text)
    except OSError as error:
        if not is_full_disk(error):
            raise
        data = text.encode()
        with path.open("r+b") as file:
            file.write(data.ljust(path.stat().st_size))  # blanks at the end keep what room it has


def create_private(path: Path, text: str) -> str:
    """Creates the file unless it exists; returns its contents. If several processes do so at once, one creates it and the others
    read that. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    draft = _draft(path, text)
    try:
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(draft, path)  # atomic, and never replaces an existing file
    finally:
        draft.unlink(missing_ok=True)
    files.sync(path.parent)
    return path.read_text()


def _draft(path: Path, text: str) -> Path:
    # Random, since processes on two machines or in two containers may have the same number.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
