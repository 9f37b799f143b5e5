"""A workspace whose nodes are on a real Ray cluster: Spark across three machines, and a machine that fails under it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from tests.spark.engines import SUM, EngineLive
from tests.support.driver import DRIVER, pynvml
from tests.support.patience import until
from tests.support.rays import FOURTH, GIB, HEAD, SECOND, THIRD, RayCluster, ray_cluster, ray_python
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

GPU = {"node_type_id": "gpu", "num_cores": 1, "memory_mb": 2048, "num_gpus": 1}


class RayLive(EngineLive):
    """A workspace on Ray. Every machine has a driver's library; only the one that says so to Ray has GPUs."""

    def __init__(self, place: Path, ray: RayCluster) -> None:
        self.ray = ray
        python = place / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={DRIVER} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        section = {
            "address": ray.address, "node_address": HEAD, "python": str(ray_python()), "agent_python": str(python),
            "node_types": [GPU],
        }  # fmt: skip
        super().__init__(place / "workspace", "ray", section)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayLive]:
    with ray_cluster() as ray:
        made = RayLive(tmp_path_factory.mktemp("ray"), ray)
        with made.running():
            yield made


@pytest.fixture(scope="module")
def cluster(live: RayLive) -> str:
    return live.create("three", SPARK_4, node_type="ray.1c-2g", num_workers=2)


def test_a_query_runs_across_three_machines(live: RayLive, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=2)
    assert sorted(live.hosts(cluster)) == [HEAD, SECOND, THIRD]
    assert live.run(cluster, SUM).strip() == "3000000"


def test_a_machine_that_is_drained_hands_over_what_it_has(live: RayLive, cluster: str) -> None:
    driver, *workers = live.hosts(cluster)
    drained = next(host for host in workers if host != HEAD)
    live.ray.drain(drained)

    def replaced() -> bool:
        return live.get(cluster).state is State.RUNNING and drained not in live.hosts(cluster) and len(live.hosts(cluster)) == 3

    until(replaced, "another machine takes its place")
    assert live.hosts(cluster)[0] == driver
    assert live.run(cluster, SUM).strip() == "3000000"
    events = live.events(cluster)
    assert [events.count(kind) for kind in ("DECOMMISSION_STARTED", "DECOMMISSION_ENDED", "NODES_LOST")] == [1, 1, 0]
    until(lambda: live.instances() == live.told(), "its agent has ended")
    live.ray.kill(drained)
    live.ray.start_node(drained)
    live.w.clusters.delete(cluster)
    live.wait(cluster, State.TERMINATED)
    live.w.clusters.start(cluster)
    live.wait(cluster, State.RUNNING, workers=2)
    assert sorted(live.hosts(cluster)) == [HEAD, SECOND, THIRD], "as before, for the next tests"


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


def test_each_worker_has_the_gpu_that_ray_gave_it(live: RayLive) -> None:
    live.ray.start_node(FOURTH, num_cpus="4", memory=str(12 * GIB), num_gpus=str(len(pynvml.ALL)))
    try:
        until(lambda: live.gpus_of("ray.2c-6g-1xgpu") == 1 and live.gpus_of("ray.4c-12g-2xgpu") == 2, "its sizes are on offer")
        assert live.check_gpus("gpu", driver="ray.1c-2g")[1:] == [FOURTH, FOURTH]
    finally:
        live.ray.kill(FOURTH)
    until(lambda: live.gpus_of("ray.2c-6g-1xgpu") is None, "they are gone with the machine")


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
