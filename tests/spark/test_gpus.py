"""GPUs on a real cluster. They are stand-ins; with BRICKYARD_TEST_GPU=1 they are the machine's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import Kind, State

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.machine.gpus import opened
from brickyard.providers.local import LocalProvider
from tests.spark.live import User
from tests.support.gpus import describe
from tests.support.patience import until
from tests.support.runtimes import cache_dir
from tests.support.server import Server

pytestmark = pytest.mark.spark

REAL = os.environ.get("BRICKYARD_TEST_GPU") == "1"
KEY = "17.3.x-scala2.13"
VALUES = {"gpu_fraction": 0.5, "gpu_memory_bytes": 2e9, "gpu_temperature_c": 61.0, "gpu_power_w": 120.0}
PLAIN = NodeType(node_type_id="plain", num_cores=1, memory_mb=2048, category="test")
GPU = NodeType(node_type_id="gpu", num_cores=1, memory_mb=2048, category="test", num_gpus=1)
LARGE = NodeType(node_type_id="large", num_cores=2, memory_mb=12_288, category="test", num_gpus=1)  # CUDA takes some GiB
TASK = """
import json, os
from pyspark import TaskContext
def of_task(_):
    yield sorted(TaskContext.get().resources()["gpu"].addresses), os.environ["CUDA_VISIBLE_DEVICES"]
print(json.dumps([os.environ["CUDA_VISIBLE_DEVICES"], *spark.sparkContext.parallelize([0], 1).mapPartitions(of_task).first()]))
"""
INSTALL = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', 'torch'], check=True)"
TRAINING = """
import torch
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
given = torch.randn(256, 8, device="cuda")
wanted = given.sum(dim=1, keepdim=True)
losses = []
for _ in range(200):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(given), wanted)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(torch.cuda.device_count(), losses[-1] < losses[0] / 100)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What stands in for NVML; "" where the GPUs are real."""
    return "" if REAL else describe(tmp_path_factory.mktemp("gpus") / "gpus.json", VALUES)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, file: str) -> Iterator[User]:
    data = tmp_path_factory.mktemp("workspace")
    settings = Settings(data_dir=data, cache_dir=cache_dir())
    provider = LocalProvider(settings=settings, server_file=data / "server.json", node_types=(PLAIN, GPU, LARGE), gpu_file=file)
    with Server.running(data, instances=provider) as server:
        yield User(server.client())


@pytest.fixture(scope="module")
def cluster(user: User) -> str:
    """A driver without a GPU, and a worker with one."""
    made = user.w.clusters.create(
        cluster_name="gpus", spark_version=KEY, node_type_id="gpu", driver_node_type_id="plain", num_workers=1
    )
    cluster_id = str(made.cluster_id)
    user.wait(cluster_id, State.RUNNING, workers=1)
    return cluster_id


def test_tasks_have_the_gpus_of_their_worker_and_the_driver_has_none(user: User, cluster: str, file: str) -> None:
    driver, addresses, visible = json.loads(user.run(cluster, TASK))
    assert driver == ""
    assert addresses == ["0"]
    assert visible in [each.uuid for each in opened(file).found()]


def test_its_gpus_are_measured(user: User, cluster: str) -> None:
    def metrics() -> dict[str, dict[str, float]]:
        asked = user.w.api_client.do("GET", "/api/2.0/clusters/metrics-snapshot", query={"cluster_id": cluster})
        assert isinstance(asked, dict)
        return {node["role"]: node["metrics"] for node in asked["nodes"]}

    until(lambda: metrics().get("worker", {}).keys() >= VALUES.keys(), "no sample of the GPU")
    found = metrics()
    assert not VALUES.keys() & found["driver"].keys()
    assert REAL or {name: found["worker"][name] for name in VALUES} == VALUES


@pytest.mark.skipif(REAL, reason="a real GPU cannot be pulled out of the machine")
def test_a_gpu_that_is_lost_ends_its_node_with_an_event(user: User, cluster: str, file: str) -> None:
    describe(Path(file), VALUES, lost=(0,))

    def told() -> bool:
        return any("GPU-0 is lost" in str(event.as_dict()) for event in user.w.clusters.events(cluster))

    until(told, "no event tells of the GPU")


@pytest.mark.skipif(not REAL, reason="it takes a GPU and a driver: set BRICKYARD_TEST_GPU=1 where there are some")
def test_a_model_is_trained_on_a_real_gpu(user: User, cluster: str) -> None:
    user.w.clusters.delete(cluster).result()  # the machine may have only one GPU
    made = user.w.clusters.create(
        cluster_name="torch", spark_version=KEY, node_type_id="large", is_single_node=True, kind=Kind.CLASSIC_PREVIEW
    )
    cluster_id = str(made.cluster_id)
    user.wait(cluster_id, State.RUNNING)
    user.run(cluster_id, INSTALL)
    assert user.run(cluster_id, TRAINING).split() == ["1", "True"]
