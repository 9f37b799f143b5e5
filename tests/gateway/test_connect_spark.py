"""Ways into a real cluster: stock PySpark over Spark Connect, through a whole server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import requests
from databricks.sdk.service.compute import Language, State
from databricks.sdk.service.iam import AccessControlRequest, Patch, PatchOp, PermissionLevel

from brickyard.domain.caller import Caller
from tests.spark.live import QUICK_CONF
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
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
STAYING = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.range(7).count(), flush=True)
sys.stdin.read()
"""


ENDLESS = """
import sys
from pyspark.sql import SparkSession
SparkSession.builder.remote(sys.argv[1]).getOrCreate().range(10**15).selectExpr("sum(id % 7)").collect()
"""


LEAVING = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.readStream.format("rate").load().writeStream.format("noop").start()
spark.range(10**15).selectExpr("sum(id % 7)").collect()
"""


class Way(NamedTuple):
    """A running cluster, and how to get to it."""

    server: Server
    cluster_id: str
    port: int
    python: str

    def url(self, token: str = TOKEN, cluster_id: str = "") -> str:
        return f"sc://localhost:{self.port}/;token={token};x-databricks-cluster-id={cluster_id or self.cluster_id}"

    def client(self, token: str = TOKEN, cluster_id: str = "") -> subprocess.CompletedProcess[str]:
        """Stock PySpark in a process of its own."""
        argv = [self.python, "-c", CLIENT, self.url(token, cluster_id)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    manifest = manifest_of(SPARK_4)
    with Server.running(tmp_path_factory.mktemp("workspace"), connect_port=free_port(), connect_start_clusters=False) as server:
        w = server.client()
        made = w.clusters.create(
            cluster_name="connect",
            spark_version=SPARK_4,
            node_type_id="i3.xlarge",
            num_workers=0,
            spark_conf=QUICK_CONF | {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
        )
        found = w.clusters.wait_get_cluster_running(made.cluster_id)
        assert found.state is State.RUNNING
        assert server.application is not None
        assert server.application.connect is not None
        yield Way(server, made.cluster_id, server.application.connect.port, manifest["python"])


def get(way: Way, path: str) -> requests.Response:
    """One request with the administrator's token."""
    return requests.get(way.server.url + path, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)


def test_stock_pyspark_works(way: Way) -> None:
    done = way.client()
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["version"].startswith("4.")
    assert sum(found["groups"]) == 100_000
    assert found["udf"] == sum(range(1, 100_001))
    assert (found["rows"], found["large"]) == (100_000, 3_000_000)
    assert "TABLE_OR_VIEW_NOT_FOUND" in found["error"]


def test_what_a_cut_call_runs_ends(way: Way) -> None:
    """When its token is revoked: Spark would go on for minutes, for the client to come back."""
    w = way.server.client()
    made = w.tokens.create(comment="for a while", lifetime_seconds=600)
    assert made.token_value is not None and made.token_info is not None and made.token_info.token_id is not None
    (application,) = get(way, f"/spark-ui/{way.cluster_id}/api/v1/applications").json()

    def jobs(status: str) -> list[int]:
        found = get(way, f"/spark-ui/{way.cluster_id}/api/v1/applications/{application['id']}/jobs?status={status}").json()
        return [each["jobId"] for each in found]

    argv = [way.python, "-c", ENDLESS, way.url(made.token_value)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
        try:
            until(lambda: jobs("running"))
            (job,) = jobs("running")
            w.tokens.delete(made.token_info.token_id)
            until(lambda: not jobs("running"))
            assert job in jobs("failed")
            assert client.stderr is not None and "UNAUTHENTICATED" in client.stderr.read()
        finally:
            client.kill()


def test_what_nobody_is_attached_to_ends_with_its_users_access(way: Way) -> None:
    """Spark would keep an operation for minutes, for its client to come back, and a stream for good."""
    w, name = way.server.client(), "leaving@example.com"
    user = w.users.create(user_name=name)
    mine = AccessControlRequest(user_name=name, permission_level=PermissionLevel.CAN_ATTACH_TO)
    w.permissions.update("clusters", way.cluster_id, access_control_list=[mine])
    made: Any = w.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": name})
    ui = f"/spark-ui/{way.cluster_id}/api/v1/applications"
    (application,) = get(way, ui).json()

    def running() -> list[str]:
        found = get(way, f"{ui}/{application['id']}/jobs?status=running").json()
        return [each["name"] for each in found]

    def sessions() -> list[str]:
        found = get(way, f"/api/2.1/clusters/list-attached?cluster_id={way.cluster_id}").json()
        return [each["user_name"] for each in found["connect_sessions"]]

    gateway = way.server.application.connect if way.server.application is not None else None
    assert gateway is not None
    with subprocess.Popen([way.python, "-c", LEAVING, way.url(made["token_value"])], stderr=subprocess.DEVNULL) as client:
        until(lambda: running() and name in sessions())
        client.kill()
    until(lambda: not gateway._calls)
    assert running(), "nobody is attached, and it goes on"
    assert user.id is not None
    w.users.patch(user.id, operations=[Patch(op=PatchOp.REPLACE, path="active", value="false")])
    until(lambda: name not in sessions())
    until(lambda: not running())


def test_who_is_attached_is_listed(way: Way) -> None:
    w = way.server.client()
    context = w.command_execution.create(cluster_id=way.cluster_id, language=Language.PYTHON).result()
    assert context.id is not None
    found = get(way, f"/api/2.1/clusters/list-attached?cluster_id={way.cluster_id}").json()
    (mine,) = [each for each in found["contexts"] if each["context_id"] == context.id]
    assert (mine["user"], mine["language"]) == ("admin@brickyard.local", "python")
    w.command_execution.destroy(cluster_id=way.cluster_id, context_id=context.id)
    with_session = subprocess.Popen([way.python, "-c", STAYING, way.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert with_session.stdout is not None
    assert with_session.stdout.readline().strip() == b"7"
    found = get(way, f"/api/2.1/clusters/list-attached?cluster_id={way.cluster_id}").json()
    with_session.communicate(timeout=PATIENCE_S)
    assert found["contexts"] == []
    assert found["connect_sessions"][0]["user_name"] == "admin@brickyard.local"
    assert found["connect_sessions"][0]["client_type"].startswith("_SPARK_CONNECT_PYTHON")
    assert found["connect_sessions"][0]["last_used_ms"] >= found["connect_sessions"][0]["started_ms"] > 0


def test_the_spark_ui_is_there_for_those_who_may_see_it(way: Way) -> None:
    link = get(way, f"/api/2.1/clusters/spark-ui-link?cluster_id={way.cluster_id}").json()["url"]
    front = requests.get(link, timeout=PATIENCE_S)
    assert (front.status_code, "Spark Jobs" in front.text) == (200, True), front.text[:500]
    prefix = link.removeprefix(way.server.url).rstrip("/")
    assert f'href="{prefix}/stages/' in front.text
    pages = {"stages": "Stages for All Jobs", "SQL": "SQL", "environment": "Environment", "connect": "Session Statistics"}
    for name, says in pages.items():
        path = f"/{name}/"
        answer = requests.get(way.server.url + prefix + path, timeout=PATIENCE_S)
        assert (answer.status_code, says in answer.text) == (200, True), path
    (application,) = get(way, f"/spark-ui/{way.cluster_id}/api/v1/applications").json()
    executors = get(way, f"/spark-ui/{way.cluster_id}/api/v1/applications/{application['id']}/allexecutors").json()
    assert executors[0]["id"] == "driver"
    assert get(way, f"/spark-ui/{way.cluster_id}/static/webui.js").status_code == 200
    # Its own port is closed to everybody else on this machine.
    assert way.server.application is not None
    me = Caller(user_name="admin@brickyard.local", user_id="1", is_admin=True, token_id="")
    source = way.server.application.parts.gateway.spark_ui.source  # which knows the way by now
    own = asyncio.run(source.find(me, source.address(f"/spark-ui/{way.cluster_id}")))
    try:
        assert requests.get(own.url + "/jobs/", timeout=PATIENCE_S).status_code == 403
    except requests.ConnectionError:  # the cluster has a network of its own, and nobody out here has a way in
        assert own.way


def test_who_may_not_enter_is_told_by_pyspark(way: Way) -> None:
    wrong = way.client(token="dapi0")
    assert wrong.returncode != 0
    assert "UNAUTHENTICATED" in wrong.stderr
    assert "Invalid access token" in wrong.stderr
    unknown = way.client(cluster_id="0101-000000-nowhere0")
    assert "NOT_FOUND" in unknown.stderr


def test_the_spark_ui_of_a_terminated_cluster_is_made_from_its_event_log(way: Way) -> None:
    way.server.client().clusters.delete_and_wait(way.cluster_id)
    front = get(way, f"/spark-ui/{way.cluster_id}/")
    assert front.status_code == 200, front.text[:500]
    assert "/history/" in front.url
    assert "Completed Jobs" in front.text
    (application,) = get(way, f"/spark-ui/{way.cluster_id}/api/v1/applications").json()
    jobs = get(way, f"/spark-ui/{way.cluster_id}/api/v1/applications/{application['id']}/jobs").json()
    assert {job["status"] for job in jobs} <= {"SUCCEEDED", "FAILED"}
    assert len(jobs) > 3
    stages = get(way, f"/spark-ui/{way.cluster_id}/history/{application['id']}/stages/")
    assert f'href="/spark-ui/{way.cluster_id}/history/{application["id"]}/' in stages.text
    refused = subprocess.run([way.python, "-c", STAYING, way.url()], capture_output=True, text=True, check=False, timeout=300)
    assert "FAILED_PRECONDITION" in refused.stderr
    assert "Terminated" in refused.stderr
