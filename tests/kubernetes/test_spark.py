"""A server, and real Spark over pods of the fake cluster. Their containers are as a kubelet makes them: users have no name,
mounts are where the pod says, and nothing in them can make namespaces."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from brickyard.storage.directory import Storage
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import machine
from tests.kubernetes.test_servers import NAMELESS
from tests.spark.engines import EngineLive
from tests.support.driver import pynvml
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

# As with the other engines, tests/wires/test_wires_spark.py has a cluster over machines in every run.
pytestmark = [pytest.mark.spark, pytest.mark.extended]

CODE = """
rows = spark.range(40, numPartitions=8).selectExpr("id % 4 as k", "id").groupBy("k").sum("id").collect()
print(sorted((row[0], row[1]) for row in rows))
"""
FILES = """
import os
from pathlib import Path
Path("/dbfs/from-a-pod.txt").write_text("hello")
print([row[0] for row in spark.read.text("dbfs:/from-a-pod.txt").collect()], os.getuid(),
      open("/dbfs/given.txt").read())
print(sorted(os.listdir("/brickyard/storage")))
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
            "kubeconfig": str(cluster.kubeconfig), "image": "example.org/brickyard:1", "run_as_user": NAMELESS,
            "node_types": [GPU, ONE], "storage_claim": "storage", "storage_mount": "/brickyard",
            "machine_storage_dir": "/brickyard/storage",
        }  # fmt: skip
        super().__init__(place / "storage", "kubernetes", section)
        cluster.kubelets.contained = True
        cluster.kubelets.claims["storage"] = place

    def instances(self) -> set[str]:
        """See EngineLive.instances. Their directories are their pods' own."""
        running = {name for name in [*self.cluster.kubelets.started] if self.cluster.running(name)}
        return {name.removeprefix("brickyard-") for name in running}


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
    (live.data / "dbfs/given.txt").write_text("given")
    files, shown = live.run(cluster_id, FILES).splitlines()
    assert files == f"['hello'] {NAMELESS} given"
    assert (live.data / "dbfs/from-a-pod.txt").read_text() == "hello"
    of_nodes = {each.name for each in Storage(live.data).of_nodes}
    assert set(literal_eval(shown)) == {*of_nodes, "workspace.id"}, "no key and no token"

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
