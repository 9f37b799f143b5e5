"""What is tried of a file system, with file systems that do it in other ways."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from brickyard.storage.directory import Storage
from brickyard.storage.newnames import MOUNTS, filesystem_of, trouble
from brickyard.storage.private import WorkspaceError

Link = Callable[[Path, Path], object]


def failing(number: int) -> Link:
    def link(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(target))

    return link


def replacing(source: Path, target: Path, *, link: Link = os.link) -> None:
    target.unlink(missing_ok=True)
    link(source, target)


BAD: dict[str, tuple[Link, str]] = {
    "none": (failing(errno.EPERM), "no hard links"),
    "unsupported": (failing(errno.EOPNOTSUPP), "no hard links"),
    "copies": (shutil.copy, "makes a copy"),
    "replaces": (replacing, "replaces"),
}


def test_a_file_system_of_ours_passes_and_nothing_is_left(tmp_path: Path) -> None:
    assert trouble([tmp_path, tmp_path / "missing"]) == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", BAD)
def test_others_are_refused_with_the_directory_and_the_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    link, why = BAD[kind]
    monkeypatch.setattr("os.link", link)
    said = trouble([tmp_path / "missing", tmp_path])
    assert why in said and f"{tmp_path} ({filesystem_of(tmp_path, MOUNTS.read_text())})" in said
    assert not list(tmp_path.iterdir())
    with pytest.raises(WorkspaceError, match="storage_url"):
        Storage(tmp_path).check_names()


def test_a_full_disk_says_nothing_about_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", failing(errno.ENOSPC))
    assert trouble([tmp_path]) == ""


def test_what_cannot_be_written_is_another_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("os.open", read_only)
    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        trouble([tmp_path])


TABLE = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /srv/a\\040b rw - fuse.sshfs me@there:/ rw
31 22 0:41 / /srv rw master:2 - nfs4 there:/srv rw
32 31 0:42 / /srv/a\\040b rw - cifs //there/b rw
bad
"""


@pytest.mark.parametrize(
    ("path", "kind"), [("/", "ext4"), ("/home/x", "ext4"), ("/srv/x", "nfs4"), ("/srv/a b/c", "cifs"), ("/srv/a", "nfs4")]
)
def test_the_type_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), TABLE) == kind
    assert filesystem_of(Path(path), "") == ""
