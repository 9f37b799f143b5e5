"""Installed runtimes for tests on real Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.config import default_cache_dir
from tests.scripts.node import Node

SPARK_4, SPARK_3 = "17.3.x-scala2.13", "15.4.x-scala2.12"


def manifest_of(key: str) -> dict[str, Any]:
    """The manifest of a runtime, which is installed when it is not there."""
    cache = Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir())
    argv = [sys.executable, "-m", "brickyard.runtime", "install", key, "--cache-dir", str(cache), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    last = json.loads(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, last
    manifest: dict[str, Any] = last["manifest"]
    return manifest


@pytest.fixture(scope="session", params=[SPARK_4, SPARK_3])
def manifest(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every line of Spark that needs code of its own, one after the other."""
    return manifest_of(request.param)


@pytest.fixture
def new_node(tmp_path: Path, manifest: dict[str, Any]) -> Iterator[Callable[[], Node]]:
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node(tmp_path / f"node{len(nodes)}", manifest))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()
