"""A release: what its SBOM says, and that its wheel is all that a machine needs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import urllib.request
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from brickyard import __version__
from release import sbom
from release.__main__ import CHECKSUMS, ReleaseError, complete, release
from tests.support.environments import make_environment
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.snippets import ROOT, home_environment

WHEN = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom.bill(ROOT, version=__version__, made_at=WHEN))
    return found


def test_the_bill_names_what_a_server_imports_what_the_page_is_built_from_and_what_is_fetched(bill: dict[str, Any]) -> None:
    scopes = {each["purl"].partition("@")[0]: each["scope"] for each in bill["components"]}
    assert scopes["pkg:pypi/starlette"] == scopes["pkg:npm/react"] == scopes["pkg:npm/%40mantine/core"] == "required"
    fetched = ("pkg:pypi/pyspark", "pkg:maven/io.delta/delta-storage", "pkg:maven/software.amazon.awssdk/s3")
    assert {scopes[each] for each in fetched} == {"optional"}
    assert "pkg:npm/vitest" not in scopes  # it tests the page, and neither is nor builds it
    jar = next(each for each in bill["components"] if each["purl"].startswith("pkg:maven/io.delta/delta-storage@"))
    assert [(each["alg"], len(each["content"])) for each in jar["hashes"]] == [("SHA-256", 64)]


def test_a_bill_depends_on_what_is_required_alone(bill: dict[str, Any]) -> None:
    product = bill["metadata"]["component"]["bom-ref"]
    (needed,) = [each["dependsOn"] for each in bill["dependencies"] if each["ref"] == product]
    required = {each["bom-ref"] for each in bill["components"] if each["scope"] == "required"}
    assert set(needed) == required


def test_bills_of_one_checkout_are_the_same() -> None:
    made = [sbom.bill(ROOT, version="1.0", made_at=WHEN) for _ in range(2)]
    assert made[0] == made[1]


def test_a_wheel_without_the_page_is_no_release(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "brickyard-1.whl", "w") as wheel:
        wheel.writestr("brickyard/__init__.py", "")
    with pytest.raises(ReleaseError):
        complete(tmp_path / "brickyard-1.whl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("a release is made from a commit, and this is no checkout")
    return release(tmp_path_factory.mktemp("release"))


@pytest.mark.extended
@pytest.mark.timeout(1200)
def test_a_commit_gives_the_same_bytes_each_time(made: list[Path], tmp_path: Path) -> None:
    sums = {name: digest for digest, name in (line.split() for line in (made[0].parent / CHECKSUMS).read_text().splitlines())}
    assert {each.suffix for each in made} == {".whl", ".gz", ".json", ""}
    for file in release(tmp_path):
        if file.name != CHECKSUMS:
            assert hashlib.sha256(file.read_bytes()).hexdigest() == sums[file.name], file.name


@pytest.mark.extended
@pytest.mark.timeout(1200)
def test_the_wheel_alone_serves_a_workspace_with_its_page(made: list[Path], tmp_path: Path) -> None:
    """In an environment without anything else, of a machine without Node and Java, outside the checkout."""
    (wheel,) = [each for each in made if each.suffix == ".whl"]
    python = tmp_path / "venv" / "bin" / "python"
    assert make_environment(tmp_path / "venv", "--constraint", str(ROOT / "requirements" / "main.txt"), str(wheel)) == ""
    environment = {**home_environment(tmp_path), "PATH": "/usr/bin:/bin"}

    def brickyard(*arguments: str) -> str:
        command = [str(python.with_name("brickyard")), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert brickyard("version").strip() == __version__
    port = str(free_port())
    brickyard("up", "--detach", "--provider", "simulated", "--port", port, "--connect-port", "0")
    try:
        url = f"http://127.0.0.1:{port}"
        (code,) = (tmp_path / "venv").glob("lib/python*/site-packages/brickyard/webui/main-*.js")
        with urllib.request.urlopen(f"{url}/assets/{code.name}", timeout=PATIENCE_S) as answer:  # noqa: S310 - our own server
            assert answer.read() == code.read_bytes()
    finally:
        brickyard("down")
