"""Ways into a real cluster: stock PySpark over Spark Connect, through a whole server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from databricks.sdk.service.compute import State

from tests.support.runtimes import SPARK_4, manifest_of
from tests.support.server import TOKEN, Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = spark.range(100000).withColumn("k", f.col("id") % 7)
found = {
    "version": spark.version,
    "groups": [row["n"] for row in frame.groupBy("k").agg(f.count("*").alias("n")).orderBy("k").collect()],
    "udf": frame.select(f.udf(lambda value: value + 1, "long")("id").alias("n")).agg(f.sum("n")).first()[0],
    "rows": len(frame.toPandas()),
    "large": len(spark.range(3000000).select(f.expr("repeat(string(id), 2) AS text")).toPandas()),
}
try:
    spark.sql("SELECT * FROM nowhere").collect()
except Exception as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


class Way(NamedTuple):
    """A running cluster, and how to get to it."""

    server: Server
    cluster_id: str
    port: int
    python: str

    def client(self, token: str = TOKEN, cluster_id: str = "") -> subprocess.CompletedProcess[str]:
        """Stock PySpark in a process of its own."""
        url = f"sc://localhost:{self.port}/;token={token};x-databricks-cluster-id={cluster_id or self.cluster_id}"
        return subprocess.run([self.python, "-c", CLIENT, url], capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    manifest = manifest_of(SPARK_4)
    with Server.running(tmp_path_factory.mktemp("workspace"), connect_port=free_port()) as server:
        w = server.client()
        made = w.clusters.create(
            cluster_name="connect",
            spark_version=SPARK_4,
            node_type_id="i3.xlarge",
            num_workers=0,
            spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
        )
        found = w.clusters.wait_get_cluster_running(made.cluster_id)
        assert found.state is State.RUNNING
        assert server.application is not None
        assert server.application.connect is not None
        yield Way(server, made.cluster_id, server.application.connect.port, manifest["python"])


def free_port() -> int:
    import socket  # noqa: PLC0415 - here only

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_stock_pyspark_works(way: Way) -> None:
    done = way.client()
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["version"].startswith("4.")
    assert sum(found["groups"]) == 100_000
    assert found["udf"] == sum(range(1, 100_001))
    assert (found["rows"], found["large"]) == (100_000, 3_000_000)
    assert "TABLE_OR_VIEW_NOT_FOUND" in found["error"]


def test_who_may_not_enter_is_told_by_pyspark(way: Way) -> None:
    wrong = way.client(token="dapi0")
    assert wrong.returncode != 0
    assert "UNAUTHENTICATED" in wrong.stderr
    assert "Invalid access token" in wrong.stderr
    unknown = way.client(cluster_id="0101-000000-nowhere0")
    assert "NOT_FOUND" in unknown.stderr
