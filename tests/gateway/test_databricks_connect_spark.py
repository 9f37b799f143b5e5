"""databricks-connect, unmodified, against a whole server with TLS: it starts the cluster that it names.

It brings a `pyspark` of its own and supports one version of Python for each of its versions, so it is no part of the tests'
environment. The test runs where it can be imported, or with the interpreter that BRICKYARD_TEST_DATABRICKS_CONNECT names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4
from tests.support.server import TOKEN, Server

PYTHON = os.environ.get("BRICKYARD_TEST_DATABRICKS_CONNECT", "")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not PYTHON and importlib.util.find_spec("databricks.connect") is None, reason="databricks-connect is not installed"
    ),
]

CLIENT = """
import json, sys
import pandas
from databricks.connect import DatabricksSession
from pyspark.sql import functions as f
host, token, cluster_id = sys.argv[1:]
spark = DatabricksSession.builder.remote(host=host, token=token, cluster_id=cluster_id).getOrCreate()
people = spark.createDataFrame(pandas.DataFrame({"id": [1, 2], "name": ["a", "b"]}))
people.createOrReplaceTempView("people")
found = {
    "count": spark.range(10).count(),
    "rows": [row.asDict() for row in spark.createDataFrame([(1, "x")], ["n", "s"]).collect()],
    "sql": [row[0] for row in spark.sql("SELECT name FROM people ORDER BY id DESC").collect()],
    "pandas": len(people.withColumn("twice", f.col("id") * 2).toPandas()),
    "user": spark.sql("SELECT current_user()").first()[0],
}
try:
    spark.sql("SELECT * FROM nowhere").collect()
except Exception as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def test_databricks_connect_starts_the_cluster_and_works(tmp_path: Path) -> None:
    with Server.running(tmp_path / "workspace", tls=True, connect_port=free_port()) as server:
        w = server.client()
        made = w.clusters.create(
            cluster_name="connect",
            spark_version=SPARK_4,
            node_type_id="i3.xlarge",
            spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
            num_workers=0,
        )
        cluster_id = str(made.cluster_id)
        w.clusters.delete_and_wait(cluster_id)
        trusting = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "workspace" / "tls" / "ca.pem")}
        done = subprocess.run(
            [PYTHON or sys.executable, "-c", CLIENT, server.url, TOKEN, cluster_id],
            capture_output=True, text=True, check=False, timeout=600, env={**os.environ, **trusting},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert "TABLE_OR_VIEW_NOT_FOUND" in found.pop("error")
        assert found == {
            "count": 10, "rows": [{"n": 1, "s": "x"}], "sql": ["b", "a"], "pandas": 2, "user": "admin@brickyard.local",
        }  # fmt: skip
        assert w.clusters.get(cluster_id).state is State.RUNNING
