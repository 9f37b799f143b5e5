"""Cleaning and copying what hostile code has had in its hands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brickyard.domain.redaction import Redactor
from brickyard.logs import keep
from brickyard.machine import files
from tests.support.trees import deep


def test_a_tree_is_removed_whatever_is_in_it(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (tree / "closed" / "inner").mkdir(parents=True)
    (tree / "closed" / "inner" / "file").write_text("x")
    (tree / "link").symlink_to(outside)
    (tree / "closed" / "up").symlink_to("..")
    os.mkfifo(tree / "fifo")
    (tree / f".{os.getpid()}.1").mkdir()
    (tree / f".{os.getpid()}.1" / "planted").write_text("x")
    (tree / f".{os.getpid()}.2").write_text("a name that cleaning would use")
    (tree / "closed" / "inner").chmod(0)
    (tree / "closed").chmod(0)
    files.remove_tree(tree)
    assert not tree.exists()
    assert (outside / "precious").exists()
    files.remove_tree(tree)  # again: nothing to do


def test_depth_costs_nothing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    deep(tree, 5000)
    files.remove_tree(tree)
    assert not tree.exists()


def test_a_link_in_place_of_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        files.remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize("name", ["../secret", "", "/etc/passwd", "a//b", ".", "a\0b", "link", "linked/secret", "directory"])
def test_only_logs_are_read(tmp_path: Path, name: str) -> None:
    logs = tmp_path / "logs"
    (logs / "directory").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (logs / "link").symlink_to(tmp_path / "secret")
    (logs / "linked").symlink_to(tmp_path)
    with pytest.raises((OSError, ValueError)):
        files.read_tail(logs, name, 100)


def test_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log").write_text("0123456789")
    assert files.read_tail(tmp_path, "a/log", 3) == b"789"
    assert files.read_tail(tmp_path, "a/log", 100) == b"0123456789"


def test_kept_logs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(keep, "MAX_TOTAL_BYTES", 35)
    monkeypatch.setattr(files, "MAX_FILES", 6)
    logs, kept = tmp_path / "logs", tmp_path / "kept"
    (logs / "a" / "b" / "c" / "d" / "e" / "f").mkdir(parents=True)
    (logs / "a" / "b" / "c" / "d" / "e" / "f" / "too-deep").write_text("x")
    for number in range(9):
        (logs / f"{number}.log").write_text("0123456789abcdef")
    assert len(keep.keep_logs(logs, kept)) == 4
    sizes = sorted(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    assert sizes == [5, 10, 10, 10]
    assert (kept / "0.log").read_text() == "6789abcdef"
    assert keep.keep_logs(tmp_path / "nothing", kept) == {}


def test_kept_logs_hold_no_secret(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "stdout").write_bytes(b"\xff the password is hunter2\n")
    assert set(keep.keep_logs(logs, tmp_path / "kept", redact=Redactor(["hunter2"]).data)) == {"stdout"}
    assert (tmp_path / "kept" / "stdout").read_bytes() == b"\xff the password is *******\n", "bytes keep their places"


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    files.write_atomic(tmp_path / "file", b"old")
    files.write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_tree_that_takes_too_long_is_removed_in_several_calls(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("a", "b"):
        (tree / name / "deeper").mkdir(parents=True)
        (tree / name / "file").touch()
    with pytest.raises(TimeoutError):
        files.remove_tree(tree, limit_s=0.0)
    assert tree.exists()
    files.remove_tree(tree, limit_s=60.0)
    assert not tree.exists()


def test_listing_looks_at_a_bounded_number_of_entries_and_at_names_that_can_be_said(tmp_path: Path) -> None:
    """Directories without a file cost time as well; a name that is no text would break every message that holds it."""
    for number in range(30):
        (tmp_path / f"empty-{number:02}").mkdir()
    (tmp_path / "z.log").write_text("x")
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.log", os.O_CREAT))
    assert list(files.list_files(tmp_path)) == [("z.log", 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "MAX_LOOKED_AT", 10)
        assert list(files.list_files(tmp_path)) in ([], [("z.log", 1)])


def test_an_empty_directory_takes_the_place_of_whatever_was_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    for name, make in (
        ("none", lambda _: None), ("file", Path.touch), ("link", lambda path: path.symlink_to(elsewhere)),
        ("tree", lambda path: (path / "a" / "b").mkdir(parents=True)),
    ):  # fmt: skip
        make(tmp_path / name)
        files.make_empty(tmp_path / name)
        assert (tmp_path / name).is_dir() and not (tmp_path / name).is_symlink()
        assert list((tmp_path / name).iterdir()) == []
    assert (elsewhere / "kept").exists()


@pytest.mark.parametrize("trick", ["moved", "link", "file", "below", "removed", "left"])
def test_a_directory_that_programs_move_is_found_again(tmp_path: Path, trick: str) -> None:
    top, logs = tmp_path / "node", tmp_path / "node" / "logs"
    logs.mkdir(parents=True)
    anchor = files.Anchor(logs)
    (logs / "stdout").write_text("said")
    if trick == "removed":
        files.remove_tree(logs)
    elif trick == "left":
        logs.rename(tmp_path / "elsewhere")  # no program of a node can do that
    elif trick == "below":
        (top / "new").mkdir()
        logs.rename(top / "new" / "old")
        (top / "new").rename(logs)
    else:
        logs.rename(top / "hidden")
    if trick == "link":
        logs.symlink_to(tmp_path)
    elif trick == "file":
        logs.touch()
    anchor.restore()
    anchor.close()
    assert logs.exists() == (trick not in ("removed", "left"))
    assert trick in ("removed", "left") or (logs / "stdout").read_text() == "said"
    assert sorted(path.name for path in top.iterdir()) == (["logs"] if logs.exists() else [])
