"""A release: what its SBOM says, and that its wheel is all that a machine needs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uv
import yaml

from brickyard import __version__
from brickyard.machine.packageindex import uv_environment
from release import sbom
from release.__main__ import CHECKSUMS, ReleaseError, complete, release
from tests.support.environments import make_environment
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, cache_dir, manifest_of
from tests.support.snippets import ROOT, blocks, home_environment

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


@pytest.fixture(scope="module")
def wheel(made: list[Path]) -> Path:
    (found,) = [each for each in made if each.suffix == ".whl"]
    return found


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
def test_the_wheel_alone_serves_a_workspace_with_its_page(wheel: Path, tmp_path: Path) -> None:
    """In an environment without anything else, of a machine without Node and Java, outside the checkout."""
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


@pytest.mark.extended
@pytest.mark.timeout(1200)
def test_a_missing_extra_is_added_as_its_message_says(wheel: Path, tmp_path: Path) -> None:
    """By `uv tool`, which forgets what it was not told of. tests/machine/test_installing.py has the other ways."""
    environment = {**home_environment(tmp_path), "PATH": f"{tmp_path}/.local/bin:{Path(uv.find_uv_bin()).parent}:/usr/bin:/bin"}
    environment |= uv_environment(os.environ)

    def type_in(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    assert type_in(f"uv tool install --quiet {wheel}").returncode == 0
    (tmp_path / "brickyard.toml").write_text('[kubernetes]\nimage = "x"\nrun_as_user = 1000\n')
    for command, missing in (
        ("brickyard kernel install mine", "ipykernel"),
        ("brickyard up --detach --provider kubernetes --config brickyard.toml", "lightkube"),
    ):
        before = type_in(command)
        told = re.search(r"(uv tool install .*)$", before.stderr, re.MULTILINE)
        assert before.returncode == 1
        assert told is not None, before.stderr
        assert f"{missing}" in told[1]
        assert type_in(told[1]).returncode == 0
        assert "uv tool install" not in type_in(command).stderr, "it goes on to what it needs next"


@pytest.mark.extended
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_the_workflow_of_the_documentation_runs_as_written(wheel: Path, tmp_path: Path) -> None:
    """Both of its jobs, with the pages' tests, by a Python that has only what they install."""
    page = ROOT / "docs" / "ci.md"
    here, home, tools = tmp_path / "repository", tmp_path / "home", tmp_path / "venv" / "bin"
    (here / "wheels").mkdir(parents=True)
    home.mkdir()
    shutil.copy(wheel, here / "wheels")
    for name, text in zip(("test_clusters.py", "test_answers.py"), python_of(page), strict=False):
        (here / name).write_text(text)
    assert make_environment(tmp_path / "venv", "pip") == ""
    environment = {**home_environment(home), "PATH": f"{tools}:/usr/bin:/bin"}
    # What the job's cache holds; and another port, since 8080 is taken on this machine.
    environment |= {"BRICKYARD_CACHE_DIR": str(cache_dir()), "BRICKYARD_PORT": "0", "BRICKYARD_CONNECT_PORT": "0"}
    manifest_of(SPARK_4)
    jobs = workflow(page)["jobs"]
    assert list(jobs) == ["simulated", "spark"]
    for job in jobs.values():
        for step in (each for each in job["steps"] if "run" in each):
            done = subprocess.run(
                ["bash", "-e", "-c", step["run"]], cwd=here, env=environment, capture_output=True, text=True, check=False,
                timeout=PATIENCE_S,
            )  # fmt: skip
            assert done.returncode == 0, (step, done.stdout, done.stderr)


def test_the_jobs_of_gitlab_run_the_same_tests() -> None:
    page = ROOT / "docs" / "ci.md"
    (gitlab,) = [found for each in yaml_of(page) if "jobs" not in (found := yaml.safe_load(each))]
    named = {name for job in gitlab.values() for line in job["script"] for name in re.findall(r"\w+\.py", line)}
    steps = [each.get("run", "") for job in workflow(page)["jobs"].values() for each in job["steps"]]
    assert {"test_clusters.py", "test_answers.py"} <= named
    assert {name for line in steps for name in re.findall(r"\w+\.py", line)} <= named
    assert set(re.findall(r"brickyard-([\d.]+)-py3", page.read_text())) == {__version__}


def python_of(page: Path) -> list[str]:
    return [each.text for each in blocks(page) if each.language == "python"]


def yaml_of(page: Path) -> list[str]:
    return [each.text for each in blocks(page) if each.language == "yaml"]


def workflow(page: Path) -> dict[str, Any]:
    (found,) = [document for each in yaml_of(page) if "jobs" in (document := yaml.safe_load(each))]
    return dict(found)
