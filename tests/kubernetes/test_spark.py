"""A server, and real Spark over pods of the fake cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import machine
from tests.spark.engines import EngineLive
from tests.support.driver import pynvml
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = pytest.mark.spark

CODE = """
rows = spark.range(40, numPartitions=8).selectExpr("id % 4 as k", "id").groupBy("k").sum("id").collect()
print(sorted((row[0], row[1]) for row in rows))
"""
SUMS = "[(0, 180), (1, 190), (2, 200), (3, 210)]"
GPU = {"node_type_id": "gpu", "num_cores": 1, "memory_mb": 2048, "num_gpus": 1}
ONE = {
    "node_type_id": "one",
    "num_cores": 1,
    "memory_mb": 2048,
    "engine": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "one"}}},
}


class PodsLive(EngineLive):
    """A workspace on the fake cluster."""

    def __init__(self, place: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        section = {
            "kubeconfig": str(cluster.kubeconfig), "image": "example.org/brickyard:1", "run_as_user": 1000,
            "node_types": [GPU, ONE],
        }  # fmt: skip
        super().__init__(place / "workspace", "kubernetes", section)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodsLive]:
    place = tmp_path_factory.mktemp("pods")
    gpus = machine("gpus", gpus=len(pynvml.ALL), **{"nvidia.com/gpu.product": "Test-80GB"})
    cluster = Cluster(place / "cluster", machine("one"), machine("two"), machine("three"), gpus)
    try:
        made = PodsLive(place, cluster)
        with made.running():
            yield made
        until(lambda: not cluster.pods())
        assert cluster.names("secrets") == cluster.names("networkpolicies") == set()
    finally:
        cluster.close()


def test_each_worker_has_the_gpu_that_its_container_was_given(live: PodsLive) -> None:
    assert live.gpus_of("k8s.8c-32g-2xTest-80GB") == 2
    live.check_gpus("gpu", driver="one")


def test_a_query_over_pods_and_a_worker_that_is_evicted(live: PodsLive) -> None:
    cluster, cluster_id = live.cluster, live.create("over pods", SPARK_4, node_type="k8s.small", num_workers=2)
    found = live.wait(cluster_id, State.RUNNING, workers=2)
    assert len(cluster.pods()) == len({each["spec"]["nodeName"] for each in cluster.pods()}) == 3
    addresses = {each["status"]["podIP"] for each in cluster.pods()}
    assert live.run(cluster_id, CODE) == SUMS

    lost = str((found.executors or [])[0].instance_id)
    cluster.delete(f"brickyard-{lost}")  # as an eviction does: the agent has a grace to end its node
    until(lambda: lost not in live.told())
    live.wait(cluster_id, State.RUNNING, workers=2)
    assert {each["status"]["podIP"] for each in cluster.pods()} != addresses, "another pod has taken its place"
    assert live.run(cluster_id, CODE) == SUMS
    events = live.events(cluster_id)
    assert [events.count(kind) for kind in ("DECOMMISSION_STARTED", "DECOMMISSION_ENDED", "NODES_LOST")] == [1, 1, 0]
    live.w.clusters.delete(cluster_id)
    live.wait(cluster_id, State.TERMINATED)
    until(lambda: not cluster.pods())
