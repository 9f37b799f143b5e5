"""Delivers a node's logs to the destination of its cluster's `cluster_log_conf`, a directory of the workspace's files.

Each pass copies what was written since the last one. A log goes to one file of the destination, under the name that Databricks
uses; what it was before it was rolled goes to the same file. A file belongs to the node that created it: another start of the
cluster, which would use the same name, adds the time to it. So the same bytes are always written at the same place, and a
pass may be cut off anywhere and repeated. The record of this (`keep.DELIVERY_RECORD`) is written before a file is created. After
a kill, whoever has the logs and the record can go on: the agent, or a server with the logs that the node has left.

Users' code can change the destination and the logs: nothing follows links, and only regular files are read or written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from brickyard.domain import nodeops
from brickyard.domain.node import LogDestination, Role
from brickyard.logs.keep import Redact
from brickyard.logs.logfiles import LogDirectory
from brickyard.machine import files
from brickyard.machine.pressure import DBFS_FULL

CHUNK = 1 << 20
_BINARY = "eventlog/"
_ACTIVE = "log4j-active.log"


class Delivered(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far one file of the destination is. `position` is after the last delivered byte of the log."""

    target: str
    position: str = ""
    size: int = 0  # of the file so far
    claimed: bool = False  # the file is this node's


class DeliveryRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`node` names the node among the cluster's, and `elsewhere` is whether it is on another machine than its servers. `objects`:
    the names that objects of S3 have got in the second `named_s`. The record is removed once everything is delivered."""

    destination: LogDestination
    cluster_id: str
    node: str
    role: Role
    elsewhere: bool = False
    logs: dict[str, Delivered] = {}
    named_s: int = 0
    objects: list[str] = []


_decode_delivery_record = msgspec.json.Decoder(DeliveryRecord).decode


class Progress:
    """The record of a delivery, in its file. A pass that is given up may hang for long, and others go on meanwhile: from then on
    it writes neither the record nor, as soon as it looks, anything else."""

    def __init__(self, file: Path) -> None:
        """Raises OSError and ValueError."""
        self._file = file
        self._given_up = False
        self._turn = threading.Lock()
        self.record = _decode_delivery_record(file.read_bytes())

    def give_up(self) -> None:
        with self._turn:
            self._given_up = True

    def check(self) -> None:
        """Raises OSError if this pass was given up."""
        if self._given_up:
            raise TimeoutError(errno.ETIMEDOUT, "it took too long")

    def save(self) -> None:
        with self._turn:
            self.check()
            files.write_atomic(self._file, msgspec.json.encode(self.record))

    def finish(self) -> None:
        with self._turn:
            self.check()
            self._file.unlink(missing_ok=True)


class Delivery:
    """Delivers the logs of one node. `record` is the file with the record. Methods block, and raise OSError: what was delivered
    before stays, and the next pass goes on from there."""

    def __init__(self, record: Path, *, roots: dict[str, Path], redact: Redact = bytes) -> None:
        """`roots`: the directory for each kind of place. `redact` hides secrets and keeps the length."""
        self.progress = Progress(record)
        self._redact = redact
        self._roots = roots
        self.record = self.progress.record

    def run(self, logs: LogDirectory, *, final: bool = False) -> None:
        """One pass. Only complete lines are delivered, unless it is the `final` one."""
        top = self._open_top()
        try:
            for name in logs.names():
                self._deliver(logs, name, top, final=final)
            if final:
                self.progress.finish()
        finally:
            os.close(top)

    def _open_top(self) -> int:
        """The cluster's directory in the destination."""
        wanted = self.record.destination
        if wanted.kind in self._roots and (self._roots[wanted.kind].parent / DBFS_FULL).exists():
            raise OSError(errno.ENOSPC, "the workspace's files take as much as they may (dbfs_gb)")
        root = self._roots.get(wanted.kind)
        if root is None or not root.is_dir():
            raise FileNotFoundError(f"the directory of {wanted.kind} does not exist")
        return make_directories(root, (*filter(None, wanted.path.split("/")), self.record.cluster_id), owned=wanted.volume)

    def _deliver(self, logs: LogDirectory, name: str, top: int, *, final: bool) -> None:
        """Copies what is new of a log, and of what it was before."""
        done = self.record.logs.get(name)
        if done is not None and not done.claimed and not done.size:
            done = None  # cut off before it was known whether the name is free
        for data, after, _ in pieces(logs, name, done.position if done else "", final=final, redact=self._redact):
            done = done or self._claim(name, top)
            self._write(top, done, data)
            done.position = after
            done.size += len(data)
            self.progress.save()

    def _claim(self, name: str, top: int) -> Delivered:
        """Creates the file for a log, under a name that is free: an earlier start of the cluster may have left a file of that
        name. Recorded before anything is written: after a kill, the file is ours."""
        first = target_name(name, self.record.role, self.record.node)
        rolled = rolled_name(first, time.time())
        for target in (first, rolled, f"{rolled}--{self.record.node}"):
            fd = open_target(top, target)
            try:
                free = os.fstat(fd).st_size == 0
            finally:
                os.close(fd)
            if free:
                break
        found = self.record.logs[name] = Delivered(target=target, claimed=True)
        self.progress.save()
        return found

    def _write(self, top: int, done: Delivered, data: bytes) -> None:
        fd = open_target(top, done.target)
        try:
            written = 0
            while written < len(data):
                self.progress.check()
                written += os.pwrite(fd, data[written:], done.size + written)
            os.fsync(fd)
        finally:
            os.close(fd)


class Piece(NamedTuple):
    """Of a log."""

    data: bytes
    after: str  # the position after it
    skipped: bool  # what was before it is there no more


def pieces(logs: LogDirectory, name: str, position: str, *, final: bool, redact: Redact) -> Iterator[Piece]:
    """Yields what is new of a log since a position, and of what it was before it was rolled. Only complete lines, unless it is
    the `final` pass."""
    while True:
        piece = logs.read(name, position=position, limit=CHUNK) if position else logs.first(name, limit=CHUNK)
        data = piece.data
        ends = piece.offset + len(data) >= piece.size
        if not name.startswith(_BINARY):
            if not ends or (piece.at_end and not final):  # lines are whole, so that no secret is cut in two
                data = data[: data.rfind(b"\n") + 1 or (0 if ends else None)]
            data = redact(data)
        if data:
            skipped = piece.skipped or (not position and piece.offset > 0)
            position = nodeops.moved(piece.start, len(data))
            yield Piece(data, position, skipped)
        elif piece.at_end or piece.next == position:
            return
        else:
            position = piece.next  # an empty file; the next one follows


def rolled_name(name: str, at: float, *, seconds: bool = False) -> str:
    """The name that Databricks gives a log that it has rolled: stdout--2026-01-31--14-00, log4j-2026-01-31-14-00.log."""
    then = time.gmtime(at)
    clock = time.strftime("%H-%M-%S" if seconds else "%H-%M", then)
    day = time.strftime("%Y-%m-%d", then)
    if name.endswith(_ACTIVE):
        return f"{name.removesuffix(_ACTIVE)}log4j-{day}-{clock}.log"
    return f"{name}--{day}--{clock}"


def target_name(name: str, role: Role, node: str) -> str:
    """Where a log goes, below the cluster's directory."""
    if name.startswith(("executor/", _BINARY)):
        return name
    if name.startswith("init_scripts/"):
        return f"init_scripts/{node}/{name.removeprefix('init_scripts/')}"
    return f"worker/{node}/{name}" if role is Role.WORKER else f"driver/{name}"


def make_directories(root: Path, parts: tuple[str, ...], *, owned: int = 0) -> int:
    """Opens a directory below `root`, making what is missing after the first `owned` parts, without following links."""
    fd = os.open(root, files.DIRECTORY)
    try:
        for number, part in enumerate(parts):
            if number >= owned:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
            inner = os.open(part, files.DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_target(top: int, name: str) -> int:
    """Opens a file below an open directory for writing, and makes it if need be. Raises OSError."""
    *directories, last = name.split("/")
    fd = os.dup(top)
    try:
        for part in directories:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=fd)
            inner = os.open(part, files.DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        target = os.open(last, flags, 0o600, dir_fd=fd)
    finally:
        os.close(fd)
    if not stat.S_ISREG(os.fstat(target).st_mode):
        os.close(target)
        raise OSError(f"{name} already exists and is not a file")
    return target


class Runs(Protocol):
    """Something that delivers logs."""

    @property
    def progress(self) -> Progress: ...

    def run(self, logs: LogDirectory, *, final: bool = False) -> None: ...


class Passes:
    """Runs passes to one destination, one at a time, each on a thread of its own: a destination that hangs holds up that thread
    and no more, for as long as it hangs."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()

    @property
    def hang(self) -> bool:
        """Whether a pass that was given up still waits for the destination."""
        return self._thread is not None and self._thread.is_alive()

    def run(self, make: Callable[[], Runs], logs: LogDirectory, *, final: bool, limit_s: float) -> str:
        """One pass; returns why it failed, or "". `make` reads the record: when it is this pass's turn, not before."""
        if not self._turn.acquire(timeout=limit_s):
            return "an earlier delivery is still under way"
        try:
            if self.hang:
                return "the destination has not answered since an earlier delivery"
            return self._run(make(), logs, final=final, limit_s=limit_s)
        except (OSError, ValueError) as error:
            return _plain(error)
        finally:
            self._turn.release()

    def _run(self, delivery: Runs, logs: LogDirectory, *, final: bool, limit_s: float) -> str:
        outcome: list[str] = []

        def work() -> None:
            try:
                delivery.run(logs, final=final)
                outcome.append("")
            except (OSError, ValueError) as error:
                outcome.append(_plain(error))

        self._thread = threading.Thread(target=work, name="delivery", daemon=True)
        self._thread.start()
        self._thread.join(limit_s)
        if not outcome:
            delivery.progress.give_up()
        return outcome[0] if outcome else f"the destination did not take the logs within {limit_s:g} s"


def _plain(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__
