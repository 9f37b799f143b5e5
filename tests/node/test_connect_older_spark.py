"""The guard of Spark 3's Connect server, in front of Spark 4's without its own: the classes and names that it meets are the same,
and Spark 3's server is an artifact that may not be had where tests run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.node import Node
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import SPARK_4, manifest_of

# A start without archives, for what tests/gateway/test_spark3_spark.py has with Spark 3 itself.
pytestmark = [pytest.mark.spark, pytest.mark.extended]

PROGRAM = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.range(7).count(), spark.session_id, flush=True)
sys.stdin.read()
spark.stop()
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    manifest = {**manifest_of(SPARK_4), "spark_version": "3.5.9", "node_archive": "", "executor_archive": ""}
    node = Node(Path(tmp_path_factory.mktemp("node")) / "driver", manifest)
    node.prepare("single")
    assert "result" in node.become("single")
    node.wait_phase("ready")
    yield node
    node.close()


def client(manifest: dict[str, Any], url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [manifest["python"], "-c", PROGRAM, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_only_calls_with_the_token_come_in(driver: Node) -> None:
    port = driver.result("connect_open")["port"]
    assert driver.result("connect_open") == {"port": port}, "asking again changes nothing"
    assert driver.result("attached")["connect_sessions"] == []
    for parameters in ("", ";token=another"):
        stranger = client(driver.manifest, f"sc://localhost:{port}/{parameters}")
        _, complaint = stranger.communicate("", timeout=PATIENCE_S)
        assert stranger.returncode != 0
        assert "UNAUTHENTICATED" in complaint
    guest = client(driver.manifest, f"sc://localhost:{port}/;token=the-token;user_id=ann")
    try:
        assert guest.stdout is not None
        answer = guest.stdout.readline().split()
        assert answer[:1] == ["7"]
        (seen,) = until(lambda: driver.result("attached")["connect_sessions"], "the session is not listed")
        assert (seen["session_id"], seen["user"]) == (answer[1], "ann")
        assert 0 < seen["started_ms"] <= seen["last_used_ms"]
    finally:
        guest.communicate("", timeout=PATIENCE_S)
    until(lambda: not driver.result("attached")["connect_sessions"], "a session that was ended is still listed")


def test_no_secret_is_shown(driver: Node) -> None:
    assert "the-token" not in driver.command_lines()
    driver.result("connect_open")
    assert driver.run("print(spark.conf.get('spark.brickyard.connect.token', 'nothing'))") == "nothing"
    assert "the-token" not in driver.run("print(spark.sql('SET').collect(), sc.getConf().getAll())")
    shown = driver.run("print({k: v for k, v in spark.sparkContext.getConf().getAll() if 'Guard' in v})")
    assert shown == "{'spark.connect.grpc.interceptor.classes': 'brickyard.TokenGuard'}"
