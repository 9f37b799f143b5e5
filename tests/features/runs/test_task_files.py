"""Which Python files tasks may name, and from which tree they are read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.runs.taskfiles import TaskFiles, UnreadableFile
from brickyard.plan.submit import TaskFile, task_file


@pytest.mark.parametrize(
    ("python_file", "path"),
    [
        ("dbfs:/a.py", "/a.py"), ("/dbfs/a.py", "/a.py"), ("file:/dbfs/a.py", "/a.py"),
        ("/Volumes/c/s/v/a.py", "/Volumes/c/s/v/a.py"), ("dbfs:/Volumes/c/s/v/a.py", "/Volumes/c/s/v/a.py"),
        ("file:/Workspace/Shared/a.py", "/Workspace/Shared/a.py"), ("/Workspace/Shared/a.py", "/Workspace/Shared/a.py"),
        ("/Users/me@example.com/a.py", "/Workspace/Users/me@example.com/a.py"),
    ],
)  # fmt: skip
def test_files_of_the_workspace(python_file: str, path: str) -> None:
    assert task_file(python_file) == TaskFile("dbfs", path)


@pytest.mark.parametrize(
    "python_file", ["a.py", "", "/", "dbfs:/", "s3://bucket/a.py", "/Volumes/../a.py", "/a\0.py", "Volumes/c:/x"]
)
def test_files_that_are_nowhere(python_file: str) -> None:
    with pytest.raises(InvalidParameterValue, match="python_file"):
        task_file(python_file)


def test_each_file_is_read_from_its_tree(tmp_path: Path) -> None:
    for name in ("dbfs/Volumes", "volumes", "workspace/Users"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.py").write_text(name)
    files = TaskFiles(
        dbfs=tmp_path / "dbfs",
        others={"Volumes": tmp_path / "volumes", "Workspace": tmp_path / "workspace"},
        machine=None,
    )  # fmt: skip
    for python_file, found in (("/Volumes/a.py", "volumes"), ("/Users/a.py", "workspace/Users")):
        assert asyncio.run(files.read(task_file(python_file))) == found
    for python_file in ("dbfs:/a.py", "/Workspace/../a.py", "dbfs:/Volumes/dbfs/a.py"):
        with pytest.raises((UnreadableFile, InvalidParameterValue)):
            asyncio.run(files.read(task_file(python_file)))
