"""A workspace whose nodes are on a real Ray cluster: Spark across three machines, and a machine that fails under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from brickyard.config import Settings
from brickyard.providers.local.instances import is_locked
from tests.spark.live import Live
from tests.support.patience import until
from tests.support.rays import HEAD, SECOND, THIRD, RayCluster, free_port, ray_cluster, ray_python
from tests.support.runtimes import SPARK_4, cache_dir

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

QUERY = "spark.range(0, 3_000_000, numPartitions=12).selectExpr('id % 7 as k').groupBy('k').count().agg({'count': 'sum'})"
SUM = f"print({QUERY}.first()[0])"


class RayLive(Live):
    """A workspace on Ray."""

    def __init__(self, data: Path, ray: RayCluster) -> None:
        super().__init__(data)
        self.ray = ray
        self.machine = data.parent / "machine"
        section = {
            "address": ray.address, "node_address": HEAD, "python": str(ray_python()),
            "machine_dir": str(self.machine), "machine_cache_dir": str(cache_dir()),
        }  # fmt: skip
        self.settings = Settings(
            data_dir=data, cache_dir=cache_dir(), port=0, provider="ray", public_url=f"https://127.0.0.1:{free_port('127.0.0.1')}",
            sections={"ray": section},
        )  # fmt: skip

    def hosts(self, cluster_id: str) -> list[str]:
        """The addresses of a cluster's nodes, the driver's first."""
        cluster = self.get(cluster_id)
        assert cluster.driver is not None
        return [str(each.private_ip) for each in [cluster.driver, *(cluster.executors or [])]]

    def instances(self) -> set[str]:
        """Those whose agent lives on one of Ray's machines."""
        return {path.parent.name for path in self.machine.glob("instances/*/*/agent.lock") if is_locked(path.parent)}

    def told(self) -> set[str]:
        """Those that the clusters have."""
        clusters = [self.get(str(each.cluster_id)) for each in self.w.clusters.list()]
        nodes = [node for each in clusters for node in [each.driver, *(each.executors or [])] if node is not None]
        return {str(node.instance_id) for node in nodes}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayLive]:
    with ray_cluster() as ray:
        made = RayLive(tmp_path_factory.mktemp("ray") / "workspace", ray)
        made.start()
        try:
            yield made
        finally:
            try:
                for each in made.w.clusters.list():
                    made.w.clusters.permanent_delete(str(each.cluster_id))
                until(lambda: not made.instances(), "no agent is left")
            finally:
                made.close()


@pytest.fixture(scope="module")
def cluster(live: RayLive) -> str:
    return live.create("three", SPARK_4, node_type="ray.1c-2g", num_workers=2)


def test_a_query_runs_across_three_machines(live: RayLive, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=2)
    assert sorted(live.hosts(cluster)) == [HEAD, SECOND, THIRD]
    assert live.run(cluster, SUM).strip() == "3000000"


def test_a_machine_that_fails_is_replaced(live: RayLive, cluster: str) -> None:
    driver, *workers = live.hosts(cluster)
    failed = next(host for host in workers if host != HEAD)
    before = live.instances()
    live.ray.raylet(failed).kill()
    until(lambda: "NODES_LOST" in live.events(cluster), "the cluster is told")

    def replaced() -> bool:
        return live.get(cluster).state is State.RUNNING and failed not in live.hosts(cluster) and len(live.hosts(cluster)) == 3

    until(replaced, "another machine takes its place")
    assert live.hosts(cluster)[0] == driver
    assert live.run(cluster, SUM).strip() == "3000000"
    until(lambda: live.instances() == live.told(), "the agents that live are the cluster's")
    assert len(live.instances() - before) == 1
    live.ray.kill(failed)
    live.ray.start_node(failed)


def test_a_head_that_fails_leaves_nothing_behind_and_the_next_one_serves(live: RayLive, cluster: str) -> None:
    """Without its old state: the new head knows of no instance, so they are lost, and agents that run on end themselves."""
    assert len(live.instances()) == 3
    live.ray.kill_head()
    live.ray.start_node(HEAD)
    code, _, message = live.ended(cluster)
    assert code == "DRIVER_UNREACHABLE", message
    until(lambda: not live.instances(), "nothing is left running")
    for host in (SECOND, THIRD):
        live.ray.kill(host)
        live.ray.start_node(host)
    live.w.clusters.start(cluster)
    live.wait(cluster, State.RUNNING, workers=2)
    assert live.run(cluster, SUM).strip() == "3000000"
    assert live.instances() == live.told()
