"""A newcomer's machine: a clone, an empty HOME, and a PATH without Java, Node and uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "sh", "env", "dirname", "git", "uname", "cat", "rm", "mkdir", "sed", "tr")

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(2400)]


def test_quickstart_from_a_clone(tmp_path: Path) -> None:
    clone, home, tools = tmp_path / "clone", tmp_path / "home", tmp_path / "bin"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    home.mkdir()
    tools.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    index = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    environment = {
        **index,
        "HOME": str(home),
        "PATH": str(tools),
        "LANG": "C.UTF-8",
        "BRICKYARD_IGNORE_SYSTEM_JAVA": "1",  # the test's machine may have one in a usual place
        "BRICKYARD_PORT": "0",
    }
    try:
        done = subprocess.run(
            [str(clone / "dev"), "quickstart"], env=environment, capture_output=True, text=True, check=False, cwd=home
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        assert "United Air Lines Inc." in done.stdout
        assert "same answer as a plain Python program over the same 336,776 rows" in done.stdout
        (made,) = (home / ".cache" / "brickyard" / "runtimes").glob("*/runtime.json")
        manifest = json.loads(made.read_bytes())
        assert manifest["node_archive"], "the archives of a new runtime were not made: its starts are slow"
        for name, main in (("node", b"SparkContext"), ("executor", b"CoarseGrainedExecutorBackend")):
            archive = Path(manifest[f"{name}_archive"]).read_bytes()
            assert main in archive, f"the {name}'s archive was made without Spark's classes"
        doctor = subprocess.run([str(clone / "dev"), "doctor"], env=environment, capture_output=True, text=True, check=False)
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert "each runtime brings one" in doctor.stdout, "this machine has no Java"
    finally:
        down = subprocess.run([str(clone / "dev"), "down"], env=environment, capture_output=True, text=True, check=False)
    assert down.returncode == 0, down.stdout + down.stderr
