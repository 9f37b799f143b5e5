"""Logs of a node, read by position: while users' code writes them, after they were renamed (rolled), and as kept after the node's
end.

A position names a file by its inode and first bytes, not by its name, and a place in it. So a reader that continues from a
position finds its file under the name that it has now, goes on with the file that took its place, and misses or repeats nothing.
Used by agents for running nodes and by `storage/logs.py` for kept ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from brickyard.domain.nodeops import LogPiece
from brickyard.machine import files

MAX_PIECE = 256 << 10  # bytes
HEAD = 64  # first bytes by which a file is recognised
_LONGEST = 512 << 10  # bytes that a secret may have, however it is written
_POSITION = re.compile(r"([0-9a-f]{1,16})\.([0-9a-f]{1,16})\.(\d{1,2})\.([0-9a-f]{16}|)\.(\d{1,18})")
_ROLLED = re.compile(r"(?:(.*/)?)(?:(log4j)-\d+(\.log)|(stdout|stderr)--[^/]*)")
ACTIVE = re.compile(r"(.+)-active(\.[a-z]+)")  # log4j-active.log is rolled to log4j-...log


class KeptFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a copy of a log cannot show: how its original was identified, and how many bytes of its beginning were left out."""

    inode: int
    head: bytes = b""
    start: int = 0
    masked: bool = False  # secrets are hidden in its first bytes, which are not those of the original: the inode must do


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """`modified_ns`: when the file had last been written to, at the time when the position was given out."""

    inode: int
    modified_ns: int
    head: int  # how many of the first bytes `digest` covers
    digest: str
    offset: int

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises ValueError."""
        match = _POSITION.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:100]!r} is not a position in a log")
        inode, modified, head, digest, offset = match.groups()
        return cls(inode=int(inode, 16), modified_ns=int(modified, 16), head=int(head), digest=digest, offset=int(offset))

    def __str__(self) -> str:
        return f"{self.inode:x}.{self.modified_ns:x}.{self.head}.{self.digest}.{self.offset}"


class _Open:
    """One open file of a directory of logs."""

    def __init__(self, name: str, fd: int, kept: KeptFile | None) -> None:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{name!r} is not a regular file")
        self.name = name
        self.fd = fd
        self.first = kept.start if kept else 0  # offset of the first byte that still exists
        self.size = self.first + info.st_size
        self.modified_ns = info.st_mtime_ns
        self.inode = kept.inode if kept else info.st_ino
        self._head = kept.head if kept and kept.start else None
        self._masked = kept is not None and kept.masked

    def head(self, size: int) -> bytes:
        return os.pread(self.fd, size, 0) if self._head is None else self._head[:size]

    def is_at(self, position: Position) -> bool:
        """Whether this is the file that the position is in."""
        if self.inode != position.inode:
            return False
        return self._masked or _digest(self.head(position.head), position.head) == position.digest

    def position(self, offset: int) -> str:
        head = min(HEAD, self.size)
        digest = _digest(self.head(head), head)
        return str(Position(inode=self.inode, modified_ns=self.modified_ns, head=head, digest=digest, offset=offset))

    def read(self, offset: int, limit: int) -> bytes:
        return os.pread(self.fd, limit, offset - self.first)


def _digest(head: bytes, size: int) -> str:
    return hashlib.blake2b(head, digest_size=8).hexdigest() if size and len(head) == size else ""


class LogDirectory:
    """The logs below one directory. `kept`: what is recorded of the files, if they are copies. Methods block and raise OSError,
    or ValueError for what cannot be the name of a log or a position in one."""

    def __init__(self, root: Path, kept: dict[str, KeptFile] | None = None) -> None:
        self._root = root
        self._kept = kept or {}

    def read(self, name: str, *, offset: int = 0, position: str = "", limit: int = MAX_PIECE) -> LogPiece:
        """Reads from an offset of the file that has this name now (a negative one counts from its end), or on from a position."""
        wanted = Position.parse(position) if position else None
        with contextlib.ExitStack() as stack:
            if wanted is None:
                file = self._open(name, stack)
                place = max(0, file.size + offset) if offset < 0 else min(offset, file.size)
                return self._piece(file, place, limit, at_end=True)
            try:
                newest = self._open(name, stack)
            except FileNotFoundError:
                newest = None  # it is being rolled, or will not be written again
            if newest is not None and newest.is_at(wanted):
                return self._piece(newest, wanted.offset, limit, at_end=True)
            return self._after_rolling(name, newest, wanted, limit, stack)

    def names(self) -> list[str]:
        """The names of all logs, and those under which rolled ones were written."""
        return sorted({active_name(name) for name, _ in files.list_files(self._root) if not name.startswith(".")})

    def first(self, name: str, *, limit: int = MAX_PIECE) -> LogPiece:
        """Reads from the oldest that there is of a log, which may have been rolled."""
        with contextlib.ExitStack() as stack:
            older = sorted(self._older(name, stack), key=lambda each: each.modified_ns)
            if older:
                return self._piece(older[0], older[0].first, limit, at_end=False)
            file = self._open(name, stack)
            return self._piece(file, file.first, limit, at_end=True)

    def _after_rolling(
        self, name: str, newest: _Open | None, wanted: Position, limit: int, stack: contextlib.ExitStack
    ) -> LogPiece:
        """Reads from a position whose file has lost its name, or from the first file after it."""
        older = sorted(self._older(name, stack), key=lambda each: each.modified_ns)
        place = next((each for each in older if each.is_at(wanted)), None)
        if place is not None and wanted.offset < place.size:
            return self._piece(place, wanted.offset, limit, at_end=False)
        since = wanted.modified_ns if place is None else place.modified_ns
        later = [each for each in older if each is not place and each.modified_ns >= since]
        following = later[0] if later else newest
        if following is None:
            if place is None:
                raise FileNotFoundError(name)
            return self._piece(place, wanted.offset, limit, at_end=True)
        lost = place is None and bool(wanted.offset or wanted.head)  # an empty file may go without a loss
        return self._piece(following, following.first, limit, at_end=following is newest, skipped=lost)

    def _piece(self, file: _Open, offset: int, limit: int, *, at_end: bool, skipped: bool = False) -> LogPiece:
        if not file.first <= offset <= file.size:  # its beginning was not kept, or whoever writes it has emptied it
            offset, skipped = file.first, True
        data = file.read(offset, min(limit, MAX_PIECE))
        end = offset + len(data)
        return LogPiece(
            name=file.name, start=file.position(offset), next=file.position(end), offset=offset, data=data, size=file.size,
            skipped=skipped, at_end=at_end and end >= file.size,
        )  # fmt: skip

    def _older(self, name: str, stack: contextlib.ExitStack) -> list[_Open]:
        """The files that had this name before."""
        found = []
        for each, _ in files.list_files(self._root):
            if is_rolled(each, name):
                with contextlib.suppress(OSError, ValueError):
                    found.append(self._open(each, stack))
        return found

    def _open(self, name: str, stack: contextlib.ExitStack) -> _Open:
        fd = files.open_below(self._root, name)
        stack.callback(os.close, fd)
        return _Open(name, fd, self._kept.get(name))


def is_rolled(name: str, active: str) -> bool:
    """Whether a log of that name can be what `active` was before: `stdout--2026-01-01` of `stdout`, `log4j-1.log` of
    `log4j-active.log`."""
    if name == active:
        return False
    if match := ACTIVE.fullmatch(active):
        return name.startswith(f"{match[1]}-") and name.endswith(match[2]) and not ACTIVE.fullmatch(name)
    return name.startswith((f"{active}-", f"{active}."))


def active_name(name: str) -> str:
    """The name that a rolled log had while it was written; for others, their name."""
    match = _ROLLED.fullmatch(name)
    if match is None:
        return name
    return (match[1] or "") + (f"{match[2]}-active{match[3]}" if match[2] else match[4])


def describe(name: str, fd: int, *, start: int, redact: Callable[[bytes], bytes] = bytes) -> KeptFile:
    """The record of an open log that is about to be copied from `start` on, with `redact`, which keeps the length. Raises
    ValueError."""
    file = _Open(name, fd, None)
    shown = file.head(HEAD + _LONGEST)
    head = redact(shown)[:HEAD]
    return KeptFile(inode=file.inode, head=head if start else b"", start=start, masked=head != shown[:HEAD])
