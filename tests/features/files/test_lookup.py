"""Whether files that a specification names are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.domain.places import Kind, parse
from brickyard.features.files.lookup import FileLookup
from tests.features.files.conftest import Files
from tests.support.desk import ADMIN, USER


@pytest.fixture
def lookup(files: Files) -> FileLookup:
    for folder in (files.dbfs / "scripts", files.volumes / "main/default/lib", files.workspace / "Shared", _home(files)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "init.sh").write_text("echo hello")
    return FileLookup(**{name: files.services[name] for name in ("dbfs", "volumes", "workspace")})


def _home(files: Files) -> Path:
    return files.workspace / "Users" / ADMIN.user_name


@pytest.mark.parametrize(
    ("address", "trouble"),
    [
        ("/Workspace/Shared/init.sh", ""),
        ("/Shared/init.sh", ""),
        ("/Workspace/Shared/other.sh", "does not exist"),
        ("/Workspace/Shared", "is a directory"),
        ("dbfs:/scripts/init.sh", ""),
        ("dbfs:/scripts", "is a directory"),
        ("dbfs:/other/init.sh", "does not exist"),
        ("/Volumes/main/default/lib/init.sh", ""),
        ("dbfs:/Volumes/main/default/lib/other.sh", "does not exist"),
        ("/Volumes/main/default/none/init.sh", "does not exist"),
        ("file:/opt/init.sh", ""),  # on the node
        ("gs://bucket/init.sh", ""),
    ],
)
async def test_what_is_there(lookup: FileLookup, address: str, trouble: str) -> None:
    assert await lookup.trouble(ADMIN, parse(address, bare=Kind.WORKSPACE)) == trouble


@pytest.mark.parametrize("name", ["init.sh", "other.sh"])
async def test_nothing_is_told_of_files_that_the_caller_may_not_see(lookup: FileLookup, name: str) -> None:
    assert await lookup.trouble(USER, parse(f"/Workspace/Users/{ADMIN.user_name}/{name}")) == ""
