"""Two servers with the local provider and a real cluster: what one began, the other goes on with."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import Kind, State

from tests.clusters.v1.test_tcp_ports import answers
from tests.replicas.servers import Replicas
from tests.spark.live import User
from tests.spark.test_tcp_ports import begin_program, mapping_of, opened
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.runtimes import SPARK_4, cache_dir, manifest_of

# Servers that end under a real cluster: tests/spark/test_cluster.py kills one, and the other tests here have several with nodes
# that only count.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

SLOW = """
import time
seen = spark.range(1000).repartition(4).rdd.map(lambda row: (time.sleep(0.01), row.id)[1]).sum()
print("sum", seen)
"""
REMEMBER = "spark.range(42).createOrReplaceTempView('remembered'); print(spark.table('remembered').count())"
RECALL = "print(spark.table('remembered').count())"
CLIENT = "import sys; from pyspark.sql import SparkSession; spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate(); "


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Replicas]:
    home = tmp_path_factory.mktemp("replicas")
    with Replicas.running(home, postgres.new_database(), count=2, cache_dir=cache_dir()) as running:
        yield running


def user(replicas: Replicas, number: int) -> User:
    """The workspace through that server."""
    return User(WorkspaceClient(host=replicas.all[number].url, token=replicas.token, auth_type="pat"))


def test_a_real_cluster_goes_on_whichever_server_ends(replicas: Replicas) -> None:
    first, second = user(replicas, 0), user(replicas, 1)
    cluster_id = first.create("two servers", SPARK_4, num_workers=2)
    before = nodes(first, cluster_id)
    second.run(cluster_id, "spark.range(1000).repartition(4).write.saveAsTable('kept')")
    session = str(uuid.uuid4())
    assert connected(replicas, 0, cluster_id, session, REMEMBER) == "42"
    context = second.context(cluster_id)
    command = first.begin(cluster_id, context, SLOW)

    replicas.all[0].kill()
    answer = second.finish(cluster_id, context, command)
    assert answer.results is not None
    assert answer.results.data == "sum 499500"
    assert nodes(second, cluster_id) == before
    # The same session of Spark Connect, through the other server.
    assert connected(replicas, 1, cluster_id, session, RECALL) == "42"
    second.w.clusters.resize(cluster_id, num_workers=1)
    second.wait(cluster_id, State.RUNNING, workers=1)

    replicas.all[0].start()
    replicas.all[1].stop()
    assert first.run(cluster_id, "sorted(row.id for row in spark.table('kept').collect()) == list(range(1000))") == "True"
    assert nodes(first, cluster_id) < before, "the driver and one worker are those of before"
    assert "NODES_LOST" not in first.events(cluster_id)

    replicas.all[1].start()
    second = user(replicas, 1)
    assert second.run(cluster_id, "spark.table('kept').count()") == "1000"
    second.w.clusters.delete(cluster_id)
    second.wait(cluster_id, State.TERMINATED)


def test_whichever_server_ends_a_tcp_port_is_open(replicas: Replicas) -> None:
    """At one address for all servers: one of them listens there."""
    first, second = user(replicas, 0), user(replicas, 1)
    cluster_id = first.create("ports", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    first.wait(cluster_id, State.RUNNING)
    begin_program(first, cluster_id)
    port = free_port()
    opened(second, cluster_id, port)
    assert mapping_of(first, cluster_id)["url"] == mapping_of(second, cluster_id)["url"] == f"tcp://127.0.0.1:{port}"
    for killed, other in zip(replicas.all, (second, first), strict=True):
        killed.kill()
        until(lambda: answers(port), "another server listens")
        until(lambda other=other: mapping_of(other, cluster_id)["status"] == "active", "it is told")  # type: ignore[misc]
        killed.start()
        assert answers(port), "a server that joins takes nothing away"
    first.w.clusters.permanent_delete(cluster_id)


def connected(replicas: Replicas, number: int, cluster_id: str, session: str, code: str) -> str:
    """What stock PySpark prints, through that server, in that session."""
    port = replicas.all[number].settings.connect_port
    url = f"sc://localhost:{port}/;token={replicas.token};x-databricks-cluster-id={cluster_id};session_id={session}"
    argv = [manifest_of(SPARK_4)["python"], "-c", CLIENT + code, url]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def nodes(who: User, cluster_id: str) -> frozenset[str]:
    """The cluster's instances, once it runs."""
    now = who.wait(cluster_id, State.RUNNING)
    return frozenset(str(each.instance_id) for each in [now.driver, *(now.executors or [])] if each)
