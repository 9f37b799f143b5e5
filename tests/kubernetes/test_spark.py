"""A server, a driver and two workers: real Spark over pods of the fake cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import State

from brickyard.lifecycle.workspace import Workspace
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import SOURCE
from tests.spark.live import User
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, cache_dir

pytestmark = pytest.mark.spark

CODE = """
rows = spark.range(40, numPartitions=8).selectExpr("id % 4 as k", "id").groupBy("k").sum("id").collect()
print(sorted((row[0], row[1]) for row in rows))
"""
SETTINGS = """
port = 0
connect_port = 0
data_dir = "{top}/data"
cache_dir = "{cache}"
public_url = "https://127.0.0.1:{port}"
provider = "kubernetes"

[kubernetes]
kubeconfig = "{kubeconfig}"
image = "example.org/brickyard:1"
run_as_user = 1000
machine_dir = "{top}/machine/brickyard"
machine_cache_dir = "{cache}"
"""


def test_a_query_over_pods_and_a_worker_that_is_evicted(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text(SETTINGS.format(top=tmp_path, cache=cache_dir(), port=free_port(), kubeconfig=cluster.kubeconfig))
    (tmp_path / "data").mkdir()
    workspace = Workspace(tmp_path / "data")
    command = [sys.executable, "-m", "brickyard", "up", "--config", str(file)]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=log, stderr=log)
    try:
        url = until(lambda: _url(workspace, server), "the server's URL")
        user = User(WorkspaceClient(host=url, token=workspace.stored_token()))
        user.w.clusters.create(
            cluster_name="over pods", spark_version=SPARK_4, node_type_id="k8s.small", num_workers=2, autotermination_minutes=0
        )
        cluster_id = str(next(iter(user.w.clusters.list())).cluster_id)
        found = user.wait(cluster_id, State.RUNNING, workers=2)
        assert len(cluster.pods()) == 3
        assert {each["spec"]["nodeName"] for each in cluster.pods()} == {"one", "two", "three"}
        addresses = {each["status"]["podIP"] for each in cluster.pods()}
        assert user.run(cluster_id, CODE) == "[(0, 180), (1, 190), (2, 200), (3, 210)]"

        lost = str((found.executors or [])[0].instance_id)
        cluster.delete(f"brickyard-{lost}")  # as an eviction does: the agent has a grace to end its node
        until(lambda: lost not in {each.instance_id for each in user.get(cluster_id).executors or []})
        user.wait(cluster_id, State.RUNNING, workers=2)
        assert {each["status"]["podIP"] for each in cluster.pods()} != addresses, "another pod has taken its place"
        assert user.run(cluster_id, CODE) == "[(0, 180), (1, 190), (2, 200), (3, 210)]"
        events = user.events(cluster_id)
        assert [events.count(kind) for kind in ("DECOMMISSION_STARTED", "DECOMMISSION_ENDED", "NODES_LOST")] == [1, 1, 0]

        user.w.clusters.delete(cluster_id)
        user.wait(cluster_id, State.TERMINATED)
        until(lambda: not cluster.pods())
        assert cluster.names("secrets") == cluster.names("networkpolicies") == set()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE_S)


def _url(workspace: Workspace, server: subprocess.Popen[bytes]) -> str:
    assert server.poll() is None, "the server has ended"
    running = workspace.running()
    try:
        return running.url if running and requests.get(f"{running.url}/readyz", timeout=5).ok else ""
    except requests.RequestException:
        return ""  # it starts
