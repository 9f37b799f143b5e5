"""What goes wrong with a snapshot leaves everything as it was, and says why. Jobs run in their own processes, as in a server."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from brickyard.storage.snapshots import job as jobs
from brickyard.storage.snapshots.chunks import ChunkStore
from brickyard.storage.snapshots.exchange import WorkspaceDirectory
from brickyard.storage.snapshots.job import Job, JobFailed, JobKind, Line, Named, manifest_file
from brickyard.storage.snapshots.manifest import decode
from brickyard.storage.snapshots.restoring import restore
from tests.support.golden import Golden

ROOM = 1 << 40


class Place:
    """A cluster's directory, with a file `a`, and a store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.current = root / "workspace" / "current"
        self.current.mkdir(parents=True)
        (self.current / "a").write_bytes(b"1" * 300_000)
        self.number = 0

    def do(self, kind: JobKind, snapshot: Named, **more: int) -> Line:
        self.number += 1
        job = Job(
            kind=kind,
            store=str(self.root / "store"),
            directory=str(self.current.parent),
            number=self.number,
            snapshot=snapshot,
            max_bytes=ROOM,
            max_stored=ROOM,
        )
        return asyncio.run(jobs.run(msgspec.structs.replace(job, **more)))

    def take(self, name: str = "one", **more: int) -> Named:
        return Named(name, self.do("take", Named(name, ""), **more).sha256)

    def files(self, kind: str) -> list[Path]:
        return sorted(path for path in (self.root / "store" / kind).rglob("*") if path.is_file() and path.name != "lock")

    def spoil(self) -> None:
        (self.current / "a").write_text("spoilt")

    def unchanged(self) -> bool:
        """Whether the directory is what `spoil` has left, and nothing else is there."""
        found = {path.name for path in self.current.parent.iterdir()}
        return (self.current / "a").read_text() == "spoilt" and found <= {"current", "done", "lock"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def flipped(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("kind", ["chunks", "manifests"])
def test_a_damaged_snapshot_is_not_restored(place: Place, kind: str, golden: Golden) -> None:
    taken = place.take()
    place.spoil()
    (path,) = place.files(kind)
    whole = path.read_bytes()
    for damage in (flipped(0), flipped(len(whole) // 2), cut, Path.unlink):
        damage(path)
        with golden.refused(JobFailed):
            place.do("restore", taken)
        assert (place.current / "a").read_text() == "spoilt"
        path.write_bytes(whole)
    place.do("restore", taken)
    assert (place.current / "a").read_bytes() == b"1" * 300_000


def test_limits_are_told_and_cost_nothing(place: Place, golden: Golden) -> None:
    taken = place.take()
    had = place.files("chunks")
    place.spoil()
    with golden.refused(JobFailed, "snapshot_gb"):
        place.do("restore", taken, max_bytes=5)
    with golden.refused(JobFailed):
        place.do("restore", taken, min_free=ROOM)
    place.do("give_up", taken)
    assert place.unchanged()
    with golden.refused(JobFailed):
        place.take("two", max_bytes=5)
    with golden.refused(JobFailed, "snapshots_gb"):
        place.take("two", max_stored=5)
    with golden.refused(JobFailed):
        place.take("two", min_free=ROOM)
    assert (place.files("chunks"), len(place.files("manifests"))) == (had, 1), "nothing is left of those"
    assert place.unchanged()


class _Filling(ChunkStore):
    """The disk is full once some chunks were written into the new directory."""

    def __init__(self, root: Path, *, after: int) -> None:
        super().__init__(root)
        self.left = after

    def get(self, digest: bytes) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().get(digest)


def test_a_disk_that_fills_in_the_middle_of_a_restore_changes_nothing(place: Place, golden: Golden) -> None:
    for number in range(3):
        (place.current / str(number)).write_bytes(bytes([number]) * 600_000)
    taken = place.take()
    manifest = decode(manifest_file(place.root / "store", taken).read_bytes(), taken.sha256)
    place.spoil()
    directory = WorkspaceDirectory(place.current.parent)
    for after in range(len(manifest.chunks)):
        store = _Filling(place.root / "store" / "chunks", after=after)
        with directory.locked(), golden.refused(OSError):
            directory.exchange(10 + after, lambda target, store=store: restore(manifest, store, target))  # type: ignore[misc]
        assert (place.current / "a").read_text() == "spoilt"
        place.number = 9 + after  # `do` counts: the same task
        place.do("give_up", taken)
        assert place.unchanged(), "the room of the unfinished directory is given back"
    place.number = 50
    place.do("restore", taken)
    assert (place.current / "a").read_bytes() == b"1" * 300_000
