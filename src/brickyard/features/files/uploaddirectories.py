"""The directories of uploads in progress, each with `lock`, `about.json` and what has arrived. All servers of the workspace share
them, and take turns by the locks.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brickyard.domain.errors import ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.machine import files, locks

LOCK_PATIENCE_S = 20.0


def take_turn(path: Path, flags: int) -> int:
    """A descriptor that locks the file until it is closed. Raises TemporarilyUnavailable."""
    held = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if locks.take(held, patience_s=LOCK_PATIENCE_S):
        return held
    os.close(held)
    raise TemporarilyUnavailable("Another server is working on this upload. Try again.")


@contextlib.contextmanager
def beginning(place: Path) -> Iterator[None]:
    """While a server counts uploads and adds one, so that all servers together keep to the limit."""
    held = take_turn(place / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def turn(directory: Path, missing: ResourceDoesNotExist) -> Iterator[None]:
    """Exclusive access to an upload. Raises TemporarilyUnavailable, and `missing` if it is not there."""
    try:
        held = take_turn(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        raise missing from None
    try:
        yield
    finally:
        os.close(held)


def make(directory: Path, about: msgspec.Struct, *private: str) -> None:
    """Makes an upload's directory, with nothing in its `data`, in one step. `private`: other empty files."""
    draft = directory.parent / f".new-{secrets.token_hex(8)}"
    try:
        draft.mkdir(mode=0o700)
        for name in ("lock", *private):
            (draft / name).touch(mode=0o600)
        (draft / "data").touch()
        write(draft, about)
        draft.rename(directory)
    except BaseException:
        files.remove_tree(draft)
        raise


def write(directory: Path, about: msgspec.Struct) -> None:
    files.write_atomic(directory / "about.json", msgspec.json.encode(about))


def forget(directory: Path) -> None:
    """Removes an upload that has ended; what cannot be removed now is swept later."""
    with contextlib.suppress(OSError):
        (directory / "about.json").unlink(missing_ok=True)
        files.remove_tree(directory)


def arriving(path: Path) -> tuple[Path, int]:
    """A new file for what a request sends, locked meanwhile, and its descriptor; pass both to `end_arriving`."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    locks.take(file)  # no other process knows it yet
    return path, file


def end_arriving(path: Path, file: int) -> None:
    """Removes the file unless it was moved into place."""
    path.unlink(missing_ok=True)
    os.close(file)
