"""Python environments with packages that are no dependencies of the project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import uv

from brickyard.machine.packageindex import uv_environment
from tests.support.patience import PATIENCE_S


def make_environment(home: Path, *packages: str) -> str:
    """Makes an environment with them in `home`, which does not exist yet. Returns why it cannot, or ""."""
    variables = os.environ | uv_environment(os.environ)
    for arguments in (
        ("venv", "-q", "--python", sys.executable, str(home)),
        ("pip", "install", "-q", "--python", str(home / "bin" / "python"), *packages),
    ):
        done = subprocess.run(
            [uv.find_uv_bin(), *arguments], env=variables, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        if done.returncode:
            return done.stderr.strip()[-300:] or f"exit status {done.returncode}"
    return ""


def environment_with(home: Path, *packages: str) -> Path:
    """Makes an environment with them in `home`, which does not exist yet, and returns its `bin`. Skips the test where the package
    index does not have them."""
    if trouble := make_environment(home, *packages):
        pytest.skip(f"{', '.join(packages)} cannot be installed: {trouble}")
    return home / "bin"
