"""Snapshots: what was there is there again, nothing else is, and a snapshot of a directory in use is one moment of it."""

from __future__ import annotations

import contextlib
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.storage.snapshots import taking
from brickyard.storage.snapshots.chunks import ChunkStore, Damaged
from brickyard.storage.snapshots.manifest import Directory, File, Link, Manifest, Part, Stamp, decode, encode
from brickyard.storage.snapshots.restoring import restore
from brickyard.storage.snapshots.taking import Limits, Refused, TooLarge, take
from tests.support.golden import Golden
from tests.support.patience import until

ROOM = Limits(bytes=1 << 30)


def verify(manifest: Manifest, store: ChunkStore) -> None:
    """Reads every chunk. Raises Damaged."""
    lengths = [0] * len(manifest.chunks)
    for file in manifest.files:
        if sum(part.length for part in file.parts) != file.size:
            raise Damaged(f"the parts of {file.path!r} do not add up to its size")
        for part in file.parts:
            lengths[part.chunk] = max(lengths[part.chunk], part.offset + part.length)
    for digest, length in zip(manifest.chunks, lengths, strict=True):
        if len(store.get(digest)) < length:
            raise Damaged(f"chunk {digest.hex()} is too short")


def noise(seed: int) -> random.Random:
    """Bytes that no compression makes smaller."""
    return random.Random(seed)  # noqa: S311 - no secret


class Place:
    def __init__(self, root: Path) -> None:
        self.source, self.store, self._root = root / "source", ChunkStore(root / "chunks"), root
        self.source.mkdir()
        self._restored = 0

    def take(self, before: Manifest | None = None, limits: Limits = ROOM) -> Manifest:
        with self.store.writing():
            return take(self.source, self.store, limits=limits, before=before)

    def restored(self, manifest: Manifest) -> Path:
        self._restored += 1
        target = self._root / f"restored-{self._restored}"
        restore(manifest, self.store, target)
        return target


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def shape(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything below a directory, with what should come back."""
    found: dict[bytes, tuple[object, ...]] = {}
    for directory, names, files in os.walk(os.fsencode(root)):
        for name in (*names, *files):
            path = os.path.join(directory, name)  # noqa: PTH118 - bytes
            info = os.lstat(path)
            key, mode = os.path.relpath(path, os.fsencode(root)), info.st_mode
            if stat.S_ISLNK(mode):
                found[key] = ("link", os.readlink(path))  # noqa: PTH115 - bytes
            elif stat.S_ISDIR(mode):
                found[key] = ("directory", stat.S_IMODE(mode), info.st_mtime_ns)
            elif stat.S_ISREG(mode):
                found[key] = ("file", stat.S_IMODE(mode), info.st_mtime_ns, Path(os.fsdecode(path)).read_bytes())
    return found


def test_everything_comes_back_as_it_was(place: Place) -> None:
    source = noise(1)
    for name, size in (("small", 10), ("empty", 0), ("edge", taking.SMALL), ("large", 9 << 20), ("sub/deep/inside", 1000)):
        path = place.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.randbytes(size))
    (place.source / "zeros").write_bytes(bytes(40 << 20))
    (place.source / "empty directory").mkdir()
    (place.source / "link").symlink_to("/etc/passwd")
    (place.source / "dangling").symlink_to("nowhere")
    Path(os.fsdecode(os.fsencode(place.source) + b"/not utf-8 \xff")).write_text("x")
    (place.source / "small").chmod(0o640)
    (place.source / "large").chmod(0o4755)
    (place.source / "sub").chmod(0o555)
    os.utime(place.source / "small", ns=(5, 5))
    os.mkfifo(place.source / "pipe")
    before = shape(place.source)

    manifest = place.take()
    assert manifest.left_out == (b"pipe",)
    assert manifest.size == sum(
        path.stat().st_size for path in place.source.rglob("*") if path.is_file() and not path.is_symlink()
    )
    verify(manifest, place.store)
    after = shape(place.restored(manifest))
    assert after.pop(b"large")[1] == 0o755, "without the set-user-ID bit"
    before.pop(b"large")
    assert after == before
    assert place.store.stored(set(manifest.chunks)) < 15 << 20, "forty megabytes of zeros are one chunk"
    (place.source / "sub").chmod(0o755)


def test_only_what_has_changed_is_read_again(place: Place) -> None:
    source = noise(2)
    for number in range(40):
        (place.source / f"small-{number}").write_bytes(source.randbytes(1000))
    (place.source / "large").write_bytes(source.randbytes(5 << 20))
    first = place.take()
    read: list[int] = []
    (place.source / "small-7").write_bytes(source.randbytes(1000))
    os.utime(place.source / "small-7", ns=(0, 0))  # whatever a program says about when it wrote
    (place.source / "small-8").unlink()
    (place.source / "small-9").rename(place.source / "renamed")
    with place.store.writing():
        second = take(place.source, place.store, limits=ROOM, before=first, progress=read.append)
    assert sum(read) == 2000
    assert shape(place.restored(second)) == shape(place.source)
    with place.store.writing():
        third = take(place.source, place.store, limits=ROOM, before=second, progress=read.append)
    assert sum(read) == 2000 and set(third.chunks) == set(second.chunks)
    assert shape(place.restored(third)) == shape(place.source)


def test_a_byte_in_the_middle_of_a_large_file_costs_one_chunk(place: Place) -> None:
    data = noise(3).randbytes(20 << 20)
    (place.source / "file").write_bytes(data)
    first = place.take()
    (place.source / "file").write_bytes(data[: 10 << 20] + b"!" + data[10 << 20 :])
    second = place.take(first)
    assert len(set(second.chunks) - set(first.chunks)) <= 2
    assert (place.restored(second) / "file").read_bytes() == (place.source / "file").read_bytes()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3000)), min_size=1, max_size=12), st.randoms())
def test_any_series_of_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int, int]], chance: random.Random
) -> None:
    place = Place(tmp_path_factory.mktemp("series"))
    taken: list[tuple[Manifest, dict[bytes, tuple[object, ...]]]] = []
    for name, what, size in changes:
        path = place.source / f"d{name % 2}" / str(name)
        path.parent.mkdir(exist_ok=True)
        if what == 0:
            path.unlink(missing_ok=True)
        elif what == 1 and path.exists():
            with path.open("ab") as file:
                file.write(chance.randbytes(size))
        else:
            path.write_bytes(chance.randbytes(size))
        taken.append((place.take(taken[-1][0] if taken else None), shape(place.source)))
    with place.store.collecting():
        place.store.collect({chunk for manifest, _ in taken[-2:] for chunk in manifest.chunks})
    for manifest, was in taken[-2:]:
        assert shape(place.restored(decode(*encode(manifest)))) == was


def test_a_directory_that_is_being_written_is_refused(place: Place) -> None:
    """Unless the writer pauses for as long as the snapshot takes, which it does where the machine gives it no time."""
    one, two = place.source / "a", place.source / "z"
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            for path in (one, two):
                path.write_bytes(b"%d" % number * (1 << 16))

    for path in (one, two):
        path.write_bytes(b"0")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(Refused, match=r"'[az]' (is being|was) "):
            for _ in range(100):
                place.take()
    finally:
        ended.set()
        writer.join()
    assert shape(place.restored(place.take())) == shape(place.source)


@pytest.mark.parametrize("change", ["add", "remove", "write", "replace by a link"])
def test_what_changes_behind_its_back_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    for name in ("a", "b", "c"):
        (place.source / name).write_text(name)

    def link() -> None:
        (place.source / "c").unlink()
        (place.source / "c").symlink_to("/etc/passwd")

    actions: dict[str, Callable[[], object]] = {
        "add": lambda: (place.source / "new").write_text("x"),
        "remove": (place.source / "a").unlink,
        "write": lambda: (place.source / "a").write_text("b"),
        "replace by a link": link,
    }

    class Acting(ChunkStore):
        def put(self, chunks: Sequence[bytes]) -> list[bytes]:
            actions[change]()
            return super().put(chunks)

    store = Acting(place.source.parent / "chunks")
    with store.writing(), pytest.raises(Refused):
        take(place.source, store, limits=ROOM)


def test_limits_hold_before_anything_is_stored(place: Place, golden: Golden) -> None:
    with (place.source / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLarge, match="bytes"):
        place.take()
    (place.source / "sparse").unlink()
    for number in range(20):
        (place.source / str(number)).touch()
    with golden.refused(TooLarge):
        place.take(limits=Limits(bytes=100, files=10))
    deep = place.source
    for _ in range(taking.MAX_DEPTH + 1):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with golden.refused(Refused):
        place.take()


def test_damage_is_found_before_it_is_used(place: Place) -> None:
    (place.source / "file").write_bytes(noise(4).randbytes(3 << 20))
    manifest = place.take()
    chunks = sorted((place.source.parent / "chunks").glob("??/*"))
    whole = chunks[0].read_bytes()
    for damaged in (whole[:-1], whole[:20] + b"x" + whole[21:], b"", chunks[1].read_bytes()):
        chunks[0].write_bytes(damaged)
        with pytest.raises(Damaged, match=chunks[0].name):
            verify(manifest, place.store)
    chunks[0].unlink()
    with pytest.raises(Damaged, match="missing"):
        place.restored(manifest)
    data, digest = encode(manifest)
    with pytest.raises(ValueError, match="digest"):
        decode(data[:-1], digest)


@pytest.mark.parametrize("path", [b"../out", b"/abs", b"a/../../out", b"", b"a//b", b"."])
def test_names_lead_nowhere_else(place: Place, path: bytes, golden: Golden) -> None:
    stamp = Stamp(1, 1)
    for manifest in (
        Manifest(taken_ns=0, files=(File(path, 0o600, 0, 0, stamp, ()),)),
        Manifest(taken_ns=0, directories=(Directory(path, 0o700, 0),)),
        Manifest(taken_ns=0, links=(Link(path, b"x"),)),
    ):
        with golden.refused(Damaged):
            place.restored(manifest)
    assert not (place.source.parent / "out").exists()


def test_no_file_is_written_through_a_link(place: Place) -> None:
    outside = place.source.parent / "outside"
    outside.mkdir()
    manifest = Manifest(
        taken_ns=0, files=(File(b"link/file", 0o600, 0, 0, Stamp(1, 1), ()),), links=(Link(b"link", os.fsencode(outside)),)
    )
    with pytest.raises(FileNotFoundError):  # links come last
        place.restored(manifest)
    assert not list(outside.iterdir())


def test_parts_that_do_not_add_up_are_damage(place: Place) -> None:
    with place.store.writing():
        (digest,) = place.store.put([b"abc"])
        place.store.settle()
    for parts in ((Part(0, 0, 2),), (Part(0, 1, 3),)):
        manifest = Manifest(taken_ns=0, chunks=(digest,), files=(File(b"f", 0o600, 0, 3, Stamp(1, 1), parts),))
        with pytest.raises(Damaged):
            verify(manifest, place.store)


TAKES = """
import sys
from pathlib import Path
from brickyard.storage.snapshots.chunks import ChunkStore
from brickyard.storage.snapshots.taking import Limits, take
store = ChunkStore(Path(sys.argv[2]))
with store.writing():
    take(Path(sys.argv[1]), store, limits=Limits(bytes=1 << 30), progress=lambda read: print(read, flush=True))
    sys.stdin.read()
"""


def test_a_kill_leaves_nothing_that_matters_and_collection_waits_for_writers(place: Place) -> None:
    (place.source / "large").write_bytes(noise(5).randbytes(8 << 20))
    command = [sys.executable, "-c", TAKES, str(place.source), str(place.source.parent / "chunks")]
    taker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert taker.stdout is not None
    assert taker.stdout.readline()
    freed: list[int] = []

    def collect() -> None:
        with place.store.collecting():
            freed.append(place.store.collect(set()))

    collector = threading.Thread(target=collect)
    collector.start()
    for _ in range(3):
        taker.stdout.readline()
    until(lambda: any(not path.name.startswith(".") for path in (place.source.parent / "chunks").glob("??/*")))
    assert not freed
    taker.kill()
    taker.communicate()
    collector.join()
    assert freed[0] > 0
    until(lambda: not list((place.source.parent / "chunks").glob("??/*")))
    assert shape(place.restored(place.take())) == shape(place.source)


def test_the_size_of_all_chunks_is_known_while_others_write(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another snapshot gives a chunk its name, and a collection removes a directory, after they were listed."""
    (place.source / "f").write_text("x")
    place.take()
    chunks = place.source.parent / "chunks"
    size, scandir = place.store.size(), os.scandir
    for name in ("00", "ff"):
        (chunks / name).mkdir(exist_ok=True)
    (chunks / "00" / ".new-1-1-00").write_text("on its way")

    def scanned(directory: Path) -> contextlib.AbstractContextManager[list[os.DirEntry[str]]]:
        with scandir(directory) as entries:
            found = list(entries)
        (chunks / "00" / ".new-1-1-00").unlink(missing_ok=True)
        if directory == chunks / "00":
            (chunks / "ff").rmdir()
        return contextlib.nullcontext(found)

    monkeypatch.setattr("brickyard.storage.snapshots.chunks.os.scandir", scanned)
    assert place.store.size() == size


def test_a_manifest_survives_its_encoding(place: Place) -> None:
    (place.source / "f").write_text("x")
    manifest = place.take()
    data, digest = encode(manifest)
    assert decode(data, digest) == manifest
    with pytest.raises(ValueError, match="format 99"):
        decode(*encode(msgspec.structs.replace(manifest, format=99)))
