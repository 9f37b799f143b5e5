"""`./dev test`: a failure of one part does not hide those of the others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.golden import Golden

DEV = Path(__file__).parents[2] / "dev"
PARTS = {
    "ruff": "lint",
    "pytest -n 4": "fast tests",
    "pytest -n 2": "tests with real Spark",
    "brickyard": "installing runtimes",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose programs only write down how they were called, and fail when told to."""
    shutil.copy(DEV, tmp_path / "dev")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/dev.txt").write_text("nothing\n")
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    (tmp_path / ".venv/stamp").write_text(f"{tmp_path.resolve()}\nnothing\n")
    for name in ("python", "ruff", "mypy", "lint-imports", "pytest", "brickyard"):
        script = f'#!/bin/sh\necho "{name} $*" >> "{tmp_path}/calls"\ncase "{name} $*" in "$FAILS"*) exit 1 ;; esac\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    return tmp_path


def run(checkout: Path, fails: str, *options: str) -> tuple[subprocess.CompletedProcess[str], str]:
    environment = {"PATH": "/usr/bin:/bin", "FAILS": fails}
    done = subprocess.run([checkout / "dev", "test", *options], env=environment, capture_output=True, text=True, check=False)
    return done, (checkout / "calls").read_text()


def test_all_parts_run_and_pass(checkout: Path) -> None:
    done, calls = run(checkout, "nobody")
    assert done.returncode == 0, done.stderr
    assert all(part in calls for part in PARTS)


def test_what_is_slow_and_rarely_breaks_runs_when_all_is_asked_for(checkout: Path) -> None:
    for options, runs in (([], False), (["--all"], True)):
        _, calls = run(checkout, "nobody", *options)
        assert ("not extended" in calls) is not runs
        assert ("install --no-packages 16.4" in calls) is runs
        (checkout / "calls").unlink()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_fails_fails_the_whole_and_hides_nothing(checkout: Path, part: str) -> None:
    done, calls = run(checkout, part)
    assert done.returncode == 1
    assert f"failed: {PARTS[part]}" in done.stderr
    others = {other for other in PARTS if not (part == "brickyard" and other == "pytest -n 2")}
    assert all(other in calls for other in others)


@pytest.mark.parametrize(("task", "enough"), [("status", True), ("lint", False)])
def test_what_only_runs_brickyard_needs_no_packages_for_development(checkout: Path, task: str, enough: bool) -> None:
    (checkout / "requirements/main.txt").write_text("less\n")
    (checkout / "requirements/environment.py").write_text("import sys\nsys.exit(f'asked for {sys.argv[1]}')\n")
    (checkout / ".venv/stamp").write_text(f"{checkout.resolve()}\nless\n")
    done = subprocess.run(
        [checkout / "dev", task], env={"PATH": "/usr/bin:/bin", "FAILS": "nobody"}, capture_output=True, text=True, check=False
    )
    assert ("asked for dev" in done.stderr) is not enough
    assert (done.returncode == 0) is enough


@pytest.mark.parametrize(("fails", "code"), [("nobody", 0), ("brickyard", 1), ("python", 0)])
def test_quickstart_does_not_wait_for_the_web_page(checkout: Path, fails: str, code: int, golden: Golden) -> None:
    environment = {"PATH": "/usr/bin:/bin", "FAILS": fails}
    done = subprocess.run(
        [checkout / "dev", "quickstart", "--no-pool"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert "brickyard quickstart --no-pool" in (checkout / "calls").read_text()
    built = [line for line in (checkout / "calls").read_text().splitlines() if "ui/build.py" in line]
    assert [line.rsplit(" ", 1)[1] for line in built] == ([] if code else ["background"])
    assert ("web page" in done.stderr) is (fails == "python")
    if fails == "python":
        golden.line(done.stderr, "web page")


@pytest.mark.parametrize(("task", "build"), [("ui", "build"), ("up", "build"), ("down", "stop"), ("status", "")])
def test_who_needs_the_web_page_waits_for_it_and_down_ends_its_build(checkout: Path, task: str, build: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "FAILS": "python"}
    done = subprocess.run([checkout / "dev", task, "--x"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = (checkout / "calls").read_text().splitlines()
    assert calls == [*([f"python {checkout}/ui/build.py {build}"] if build else []), f"brickyard {task} --x"]


@pytest.mark.parametrize(
    ("stamp", "task", "asked"),
    [
        ("main", "kernel", "jupyter"), ("main", "status", ""), ("jupyter", "kernel", ""), ("jupyter", "status", ""),
        ("dev", "kernel", ""), ("jupyter", "lint", "dev"),
    ],
)  # fmt: skip
def test_kernels_get_what_they_need_and_nothing_else_takes_it_away(checkout: Path, stamp: str, task: str, asked: str) -> None:
    for name in ("main", "jupyter", "dev"):
        (checkout / f"requirements/{name}.txt").write_text(f"{name}\n")
    (checkout / "requirements/environment.py").write_text("import sys\nsys.exit(f'asked for {sys.argv[1]}')\n")
    (checkout / ".venv/stamp").write_text(f"{checkout.resolve()}\n{stamp}\n")
    environment = {"PATH": "/usr/bin:/bin", "FAILS": "nobody"}
    done = subprocess.run([checkout / "dev", task], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == (f"asked for {asked}" if asked else "")
    assert (done.returncode == 0) is (asked == "")
