"""A workspace directory is exchanged as a whole or not at all, wherever the process that does it is killed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from brickyard.machine import files
from brickyard.storage.snapshots.exchange import WorkspaceDirectory


class Killed(BaseException):
    pass


def fill(target: Path) -> None:
    target.mkdir()
    for name in ("a", "b"):
        (target / name).write_text("new")


def content(directory: WorkspaceDirectory) -> list[str]:
    return sorted(path.read_text() for path in directory.current.iterdir())


def killed_after(steps: int, monkeypatch: pytest.MonkeyPatch, directory: WorkspaceDirectory) -> bool:
    """Exchange, killed before its step of that number. Returns whether it came that far."""
    left = itertools.count(steps, -1)
    with monkeypatch.context() as patch:
        for owner, name in ((Path, "rename"), (Path, "write_text"), (files, "write_atomic"), (files, "remove_tree")):

            def step(*args: object, _real: object = getattr(owner, name), **kwargs: object) -> object:
                if next(left) <= 0:
                    raise Killed
                return _real(*args, **kwargs)  # type: ignore[operator] # one of the functions above

            patch.setattr(owner, name, step)
        try:
            with directory.locked():
                directory.exchange(7, fill)
        except Killed:
            return True
    return False


@pytest.mark.parametrize("then", ["exchange", "give_up"])
@pytest.mark.parametrize("existed", [True, False])
def test_whatever_was_cut_off_is_finished_or_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, existed: bool
) -> None:
    for steps in itertools.count():
        top = tmp_path / f"{steps}"
        directory = WorkspaceDirectory(top)
        if existed:
            directory.current.mkdir(parents=True)
            (directory.current / "x").write_text("old")
        before = ["old"] if existed else []
        came = killed_after(steps, monkeypatch, directory)
        with directory.locked():
            if then == "exchange":
                directory.exchange(7, fill)
                assert content(directory) == ["new", "new"]
            else:
                done = (top / "done").exists()
                directory.give_up(7)
                assert content(directory) == (["new", "new"] if done or (not existed and content(directory)) else before)
            after = content(directory)
            directory.exchange(7, fill)  # a process that comes too late
            directory.exchange(6, fill)
            assert content(directory) == after
        assert sorted(path.name for path in top.iterdir()) == ["current", "done", "lock"]
        if not came:
            assert steps > 6
            break
