"""`python -m brickyard.storage.snapshots`: does one `Job` that it reads from stdin, and ends with whoever holds its stdin."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

import msgspec

from brickyard.machine import files, measure
from brickyard.machine.disk import Amount
from brickyard.storage.snapshots.chunks import ChunkStore, Damaged
from brickyard.storage.snapshots.exchange import WorkspaceDirectory
from brickyard.storage.snapshots.job import Job, Line, Named, manifest_file, manifests
from brickyard.storage.snapshots.manifest import Manifest, decode, encode, unpacked
from brickyard.storage.snapshots.restoring import restore
from brickyard.storage.snapshots.taking import Limits, Refused, take

_decode_texts = msgspec.json.Decoder(list[str]).decode
_decode_job = msgspec.json.Decoder(Job).decode


TELL_S = 0.5
NICE = 10  # requests come first
MAX_NAMES = 64 << 20  # bytes of a list of names


class NoRoom(Exception):
    """The bytes that were asked for must not be written. The message says why."""


class _Room:
    """How much may still be written. Called from several threads."""

    def __init__(self, store: Path, *, left: int, min_free: int) -> None:
        self._store = store
        self._left = left
        self._min_free = min_free
        self._lock = threading.Lock()

    def spend(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise NoRoom(
                    "all snapshots together would take more than snapshots_gb allows, of which the last part is for "
                    "administrators; delete some"
                )
            self.check(Amount(size))

    def check(self, amount: Amount) -> None:
        disk = measure.disk(self._store)
        if left := disk.shortage(amount + Amount(self._min_free, disk.floor(self._min_free).inodes)):
            raise NoRoom(f"the storage's disk is full: {left}; delete files or snapshots")


class _Teller:
    """Prints progress from time to time."""

    def __init__(self) -> None:
        self._bytes = 0
        self._next = time.monotonic() + TELL_S

    def __call__(self, read: int) -> None:
        self._bytes += read
        if time.monotonic() >= self._next:
            _say(Line(bytes=self._bytes))
            self._next = time.monotonic() + TELL_S


def _say(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _take(job: Job, store: Path) -> Line:
    assert job.snapshot is not None  # noqa: S101 - the server's to say
    chunks = ChunkStore(store / "chunks")
    room = _Room(store, left=job.max_stored - chunks.size(), min_free=job.min_free)
    chunks = ChunkStore(store / "chunks", room=room)
    directory = WorkspaceDirectory(Path(job.directory))
    with directory.locked(), chunks.writing():
        before = _load(store, job.before) if job.before is not None else None
        manifest = take(directory.current, chunks, limits=Limits(job.max_bytes), before=before, progress=_Teller())
        data, sha256 = encode(manifest)
        room.spend(len(data))
        files.write_atomic(manifest_file(store, Named(job.snapshot.snapshot_id, sha256)), data)
        stored = chunks.stored(set(manifest.chunks)) + len(data)
    return Line(
        done=True, bytes=manifest.size, sha256=sha256, files=len(manifest.files), left_out=len(manifest.left_out), stored=stored
    )


def _load(store: Path, named: Named) -> Manifest | None:
    """An earlier snapshot, which only saves work: without it, everything is read."""
    with contextlib.suppress(OSError, ValueError):
        return decode(manifest_file(store, named).read_bytes(), named.sha256)
    return None


def _restore(job: Job, store: Path) -> Line:
    assert job.snapshot is not None  # noqa: S101 - the server's to say
    try:
        manifest = decode(manifest_file(store, job.snapshot).read_bytes(), job.snapshot.sha256)
    except FileNotFoundError:
        raise Damaged("the snapshot's manifest is missing") from None
    except ValueError as error:
        raise Damaged(str(error)) from error
    if manifest.size > job.max_bytes:
        raise Refused(f"it holds {manifest.size} bytes, and snapshot_gb allows {job.max_bytes} bytes")
    _Room(store, left=0, min_free=job.min_free).check(Amount(manifest.size, len(manifest.files)))
    directory, teller = WorkspaceDirectory(Path(job.directory)), _Teller()
    with directory.locked():
        directory.exchange(job.number, lambda target: restore(manifest, ChunkStore(store / "chunks"), target, teller))
    return Line(done=True, bytes=manifest.size)


def _discard(job: Job, _: Path) -> Line:
    directory = WorkspaceDirectory(Path(job.directory))
    with directory.locked():
        directory.exchange(job.number, lambda target: target.mkdir(mode=0o700))
    return Line(done=True)


def _give_up(job: Job, _: Path) -> Line:
    directory = WorkspaceDirectory(Path(job.directory))
    with directory.locked():
        directory.give_up(job.number)
    return Line(done=True)


def _collect(_: Job, store: Path) -> Line:
    chunks, needed = ChunkStore(store / "chunks"), set[bytes]()
    with chunks.collecting():
        _say(Line(locked=True))
        known = set(_decode_texts(sys.stdin.buffer.readline(MAX_NAMES)))
        for path in sorted(manifests(store).iterdir()):
            if path.name in known or path.name.partition(".")[0] + "." in known:
                needed.update(_needed(path))
            else:
                path.unlink(missing_ok=True)
        return Line(done=True, bytes=chunks.collect(needed))


class _Chunks(msgspec.Struct):
    """The part of a manifest that says what it needs."""

    chunks: tuple[bytes, ...]


_decode_chunks = msgspec.msgpack.Decoder(_Chunks).decode


def _needed(manifest: Path) -> tuple[bytes, ...]:
    """The chunks that a manifest names. Raises Damaged: what it needs is not known then, so nothing may be removed."""
    try:
        return _decode_chunks(unpacked(manifest.read_bytes())).chunks
    except (ValueError, msgspec.MsgspecError) as error:
        raise Damaged(f"the manifest of {manifest.name} cannot be read. Delete that snapshot.") from error


_JOBS = {"take": _take, "restore": _restore, "discard": _discard, "give_up": _give_up, "collect": _collect}


def _end_with_parent() -> None:
    """Ends this process when the other end of stdin is gone: somebody else does its work then."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    os.nice(NICE)
    job = _decode_job(sys.stdin.buffer.readline())
    store = Path(job.store)
    manifests(store).mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        if job.kind != "collect":  # that one still has to read something
            _end_with_parent()
        line = _JOBS[job.kind](job, store)
    except (Refused, NoRoom) as error:
        line = Line(error=str(error))
    except Damaged as error:
        line = Line(error=f"the snapshot is damaged: {error}")
    except OSError as error:
        line = Line(error=f"the storage cannot be used: {error.strerror or error}")
    _say(line)
    os._exit(0)  # the thread that waits for stdin holds its lock


if __name__ == "__main__":
    main()
