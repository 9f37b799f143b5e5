"""`./dev test`: a failure of one part does not hide those of the others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

DEV = Path(__file__).parents[2] / "dev"
PARTS = {
    "ruff": "lint",
    "pytest -n 3": "fast tests",
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


def run(checkout: Path, fails: str) -> tuple[subprocess.CompletedProcess[str], str]:
    environment = {"PATH": "/usr/bin:/bin", "FAILS": fails}
    done = subprocess.run([checkout / "dev", "test"], env=environment, capture_output=True, text=True, check=False)
    return done, (checkout / "calls").read_text()


def test_all_parts_run_and_pass(checkout: Path) -> None:
    done, calls = run(checkout, "nobody")
    assert done.returncode == 0, done.stderr
    assert all(part in calls for part in PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_fails_fails_the_whole_and_hides_nothing(checkout: Path, part: str) -> None:
    done, calls = run(checkout, part)
    assert done.returncode == 1
    assert f"failed: {PARTS[part]}" in done.stderr
    others = {other for other in PARTS if not (part == "brickyard" and other == "pytest -n 2")}
    assert all(other in calls for other in others)
