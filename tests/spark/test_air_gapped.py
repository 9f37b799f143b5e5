"""A cluster starts on a machine without a network, on a runtime that was exported on another one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command import Cli
from tests.support.runtimes import SPARK_4, cache_dir, manifest_of

NOWHERE = "http://127.0.0.1:1"  # nobody listens there

pytestmark = [pytest.mark.spark, pytest.mark.extended]


def test_a_cluster_starts_on_an_imported_runtime(tmp_path: Path) -> None:
    manifest_of(SPARK_4)
    cli, file = Cli(tmp_path), str(tmp_path / "runtimes.tar")
    done = cli.run("runtime", "export", file, SPARK_4, "--json", "--cache-dir", str(cache_dir()))
    assert done.returncode == 0, done.stderr
    cli.environment |= {
        "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost", "UV_DEFAULT_INDEX": f"{NOWHERE}/simple",
        "PIP_INDEX_URL": f"{NOWHERE}/simple", "BRICKYARD_MAVEN_URL": NOWHERE, "UV_CACHE_DIR": str(tmp_path / "uv"),
        "BRICKYARD_IGNORE_SYSTEM_JAVA": "1", "BRICKYARD_PROVIDER": "local", "BRICKYARD_CONNECT_PORT": "0",
        "BRICKYARD_BACKGROUND_TRAINING": "false",
    }  # fmt: skip
    done = cli.run("runtime", "import", file, "--json")
    assert json.loads(done.stdout) == {"added": ["spark-4.0"], "there": []}, done.stderr
    os.unlink(file)  # noqa: PTH108 - room for the cluster
    assert cli.run("up", "--detach").returncode == 0
    try:
        for line in (("create", "air", "--wait"), ("exec", "air", "spark.range(10).count()")):
            done = cli.run("cluster", *line)
            assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == "10\n"
    finally:
        cli.run("down")
