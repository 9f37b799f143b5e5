"""A running cluster on Spark 3: Spark Connect where its artifact was to be had, and a Spark UI that is made from the event log
that it is writing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import requests
from databricks.sdk.service.compute import Language

from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_3, SPARK_4, manifest_of
from tests.support.server import TOKEN, Server

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

CLIENT = (
    "import sys; from pyspark.sql import SparkSession; SparkSession.builder.remote(sys.argv[1]).getOrCreate().range(1).count()"
)


def test_a_running_cluster_on_spark_3(tmp_path: Path) -> None:
    conf = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
    port = free_port()
    with Server.running(tmp_path / "workspace", connect_port=port) as server:
        w = server.client()
        made = w.clusters.create_and_wait(
            cluster_name="three", spark_version=SPARK_3, node_type_id="i3.xlarge", num_workers=0, spark_conf=conf
        )
        assert made.cluster_id is not None
        context = w.command_execution.create(cluster_id=made.cluster_id, language=Language.PYTHON).result()
        w.command_execution.execute(
            cluster_id=made.cluster_id, context_id=context.id, language=Language.PYTHON, command="spark.range(9).count()"
        ).result()

        def jobs() -> int:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            front = requests.get(f"{server.url}/spark-ui/{made.cluster_id}/", headers=headers, timeout=PATIENCE_S)
            assert front.status_code == 200, front.text[:500]
            application = front.url.split("/history/")[1].split("/")[0]
            place = f"{server.url}/spark-ui/{made.cluster_id}/api/v1/applications/{application}/jobs"
            return len(requests.get(place, headers=headers, timeout=PATIENCE_S).json())

        until(lambda: jobs() >= 2, "the first job of every cluster, and ours")
        place = f"{server.url}/spark-ui/{made.cluster_id}/executors/"
        page = requests.get(place, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)
        assert "executorspage.js" in page.text, "an address of a live UI leads to the same page of the run"
        own = manifest_of(SPARK_3)
        client = own["python"] if own["has_connect"] else manifest_of(SPARK_4)["python"]
        # Spark 3's client would ask for TLS if this were `token=`.
        url = f"sc://localhost:{port}/;authorization=Bearer%20{TOKEN};x-databricks-cluster-id={made.cluster_id}"
        done = subprocess.run([client, "-c", CLIENT, url], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        if own["has_connect"]:  # its artifact was to be had
            assert done.returncode == 0, done.stderr
        else:
            assert "FAILED_PRECONDITION" in done.stderr
            assert "Maven" in done.stderr
