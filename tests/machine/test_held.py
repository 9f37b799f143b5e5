"""How much disk a hostile tree holds."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from brickyard.machine import files, held, measure
from brickyard.machine.growth import OpenFile

MIB = 1 << 20


def fill(path: Path, size: int) -> None:
    path.write_bytes(os.urandom(size))
    os.sync()  # file systems that allocate late show nothing before


def test_blocks_count_once_and_holes_and_links_do_not(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    (tree / "in").mkdir(parents=True)
    outside.mkdir()
    fill(outside / "large", 8 * MIB)
    (tree / "link").symlink_to(outside)
    (tree / "file").symlink_to(outside / "large")
    with (tree / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 40)
    fill(tree / "in" / "one", 2 * MIB)
    os.link(tree / "in" / "one", tree / "two")
    os.mkfifo(tree / "fifo")
    found = held.held(tree)
    assert 2 * MIB <= found.size < 3 * MIB
    assert found.entries == 7


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_closed_directory_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    fill(tmp_path / "closed" / "large", 2 * MIB)
    (tmp_path / "closed").chmod(0)
    assert held.held(tmp_path).size >= 2 * MIB


def test_depth_costs_nothing(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    deep = os.open("deep", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.write(deep, os.urandom(MIB))
    os.fsync(deep)
    os.close(deep)
    os.close(here)
    try:
        found = held.held(tmp_path)
    finally:
        files.remove_tree(tmp_path / "d")  # pytest could not
    assert found.entries == 3001
    assert found.size >= MIB


def test_a_tree_that_changes_all_the_time_ends_the_look_and_leads_nowhere_else(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "other").mkdir()
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            os.rename(tree / "a" / "b", tree / "other" / "b")  # noqa: PTH104 - as fast as it goes
            os.rename(tree / "other" / "b", tree / "a" / "b")  # noqa: PTH104 - as above

    mover = threading.Thread(target=move)
    mover.start()
    try:
        assert all(held.held(tree).entries <= 6 for _ in range(300))
    finally:
        stop.set()
        mover.join()


def test_what_has_no_name_any_more_is_found_where_it_is_open(tmp_path: Path) -> None:
    fill(tmp_path / "gone", 3 * MIB)
    with (tmp_path / "gone").open("rb") as first, (tmp_path / "gone").open("rb"):
        disk = os.fstat(first.fileno()).st_dev
        others = held.nameless_files([os.getpid()], disk).size  # of tests before, until Python closes them
        (tmp_path / "gone").unlink()
        assert held.nameless_files([os.getpid()], disk).size - others == 3 * MIB, "once"
    before = held.memory_files([os.getpid()])
    in_memory = os.memfd_create("hidden")
    try:
        os.write(in_memory, b"x" * MIB)
        assert held.memory_files([os.getpid()]) - before == MIB
    finally:
        os.close(in_memory)


def test_a_writer_is_told_from_a_reader(tmp_path: Path) -> None:
    place = (f"{tmp_path}/",)
    (tmp_path / "file").touch()
    with (tmp_path / "file").open():
        assert not measure.writers_below([os.getpid()], place)
    before = measure.sent_by(os.getpid())
    with (tmp_path / "file").open("ab", buffering=0) as file:
        file.write(b"x" * MIB)
        (written,) = measure.writers_below([os.getpid()], place).items()
        info = os.fstat(file.fileno())
        assert written == (OpenFile(os.getpid(), info.st_dev, info.st_ino), MIB)
        assert not measure.writers_below([os.getpid()], ("/nowhere/",))
    assert measure.sent_by(os.getpid()) - before >= MIB


def test_memory_of_processes_is_measured() -> None:
    before = measure.memory_of([os.getpid()])[os.getpid()]
    kept = bytearray(os.urandom(32 * MIB))
    after, exact = measure.memory_of([os.getpid()])[os.getpid()], measure.exact_memory_of([os.getpid()])[os.getpid()]
    assert after[0] - before[0] > 24 * MIB
    assert abs(exact[0] - after[0]) < 64 * MIB
    assert len(kept) == 32 * MIB
    assert measure.memory_of([1 << 30]) == {1 << 30: (0, 0)}, "one that has gone"
