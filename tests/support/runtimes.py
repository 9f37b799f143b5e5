"""Runtimes for tests on real Spark: one of every line that needs its own code. Installs those that are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from brickyard.config.settings import default_cache_dir
from tests.support.depth import ALL

SPARK_4, SPARK_3 = "17.3.x-scala2.13", "16.4.x-scala2.12"
NEWEST = "18.2.x-scala2.13"  # on Java 25, with caches in place of archives
OTHER_LINES = (SPARK_3, NEWEST)
OTHER = SPARK_3 if ALL else SPARK_4  # of a second cluster, beside one on Spark 4


def cache_dir() -> Path:
    """Where runtimes are kept: BRICKYARD_CACHE_DIR, else the default of every workspace."""
    return Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir())


def manifest_of(key: str, *, trained: bool = False) -> dict[str, Any]:
    """The manifest of a runtime. `trained`: with archives or caches, which may take minutes to make."""
    argv = [sys.executable, "-m", "brickyard.runtime", "install", key, "--cache-dir", str(cache_dir()), "--json"]
    argv += ["--training"] if trained else []
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    last = json.loads(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, last
    manifest: dict[str, Any] = last["manifest"]
    return manifest
