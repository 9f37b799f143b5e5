"""Scenarios that need a small disk, or a machine without control groups: run in a process with mounts of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 500


def run(scenario: str, disk: Path, *, user: bool, groups: bool = True, inodes: int = 0) -> None:
    """Run a function of `scenarios.py` on a disk of 64 MiB, mounted at `disk`. `user`: in a user namespace, as somebody without
    privileges has them. Without `groups` there is no control group to be written. `inodes`: the disk has so many."""
    unshare = ["unshare", *(["--user", "--map-root-user"] if user else []), "--mount"]
    ordinary = "unshare --user --map-user=1000 --map-group=1000" if user else ""
    options = f"size=64m,nr_inodes={inodes}" if inodes else "size=64m"
    mounts = f"mount -t tmpfs -o {options} small '{disk}'" + ("" if groups else " && mount -t tmpfs none /sys/fs/cgroup")
    try:
        probe = subprocess.run(
            [*unshare, "sh", "-c", f"{mounts} && {ordinary} true"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        pytest.skip(f"no namespaces: {error}")
    if probe.returncode:
        pytest.skip(f"no disk can be mounted in a namespace here: {probe.stderr.strip()}")
    play = f'{mounts} && exec {ordinary} "$0" -m tests.room.scenarios "$@"'
    done = subprocess.run(
        [*unshare, "sh", "-c", play, sys.executable, scenario, str(disk)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, capture_output=True, text=True, check=False,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
