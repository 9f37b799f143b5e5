"""A workspace on an engine, and what holds on every engine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from databricks.sdk.service.compute import State

from brickyard.config.settings import Settings
from brickyard.providers.local.instances import is_locked
from tests.spark.live import Live
from tests.support.driver import pynvml
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, cache_dir

QUERY = "spark.range(0, 3_000_000, numPartitions=12).selectExpr('id % 7 as k').groupBy('k').count().agg({'count': 'sum'})"
SUM = f"print({QUERY}.first()[0])"
DEVICES = """
import json, os
from pyspark import TaskContext
def of_task(_):
    yield os.environ["CUDA_VISIBLE_DEVICES"], sorted(TaskContext.get().resources()["gpu"].addresses)
print(json.dumps([
    os.environ["CUDA_VISIBLE_DEVICES"],
    sorted(spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(of_task).collect()),  # one on each worker
]))
"""


class EngineLive(Live):
    """A workspace whose nodes are on an engine. Its machines are directories and addresses of this one."""

    def __init__(self, data: Path, provider: str, section: dict[str, Any]) -> None:
        super().__init__(data)
        self.machine = data.parent / "machine" / "brickyard"
        self.machine.parent.mkdir()
        places = {"machine_dir": str(self.machine), "machine_cache_dir": str(cache_dir())}
        self.settings = Settings(
            data_dir=data, cache_dir=cache_dir(), port=0, provider=provider, public_url=f"https://127.0.0.1:{free_port()}",
            sections={provider: {**places, **section}},
        )  # fmt: skip

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Until the block is left: then nothing of it may be left on the engine's machines."""
        self.start()
        try:
            yield
        finally:
            try:
                for each in self.w.clusters.list():
                    self.w.clusters.permanent_delete(str(each.cluster_id))
                until(lambda: not self.instances(), "no agent is left")
            finally:
                self.close()

    def hosts(self, cluster_id: str) -> list[str]:
        """The addresses of a cluster's nodes, the driver's first."""
        cluster = self.get(cluster_id)
        assert cluster.driver is not None
        return [str(each.private_ip) for each in [cluster.driver, *(cluster.executors or [])]]

    def instances(self) -> set[str]:
        """Those whose agent lives on one of the engine's machines."""
        return {path.parent.name for path in self.machine.glob("instances/*/*/agent.lock") if is_locked(path.parent)}

    def told(self) -> set[str]:
        """Those that the clusters have."""
        return {name for each in self.w.clusters.list() for name in self.told_of(str(each.cluster_id))}

    def told_of(self, cluster_id: str) -> set[str]:
        """Those that a cluster has."""
        cluster = self.get(cluster_id)
        return {str(node.instance_id) for node in [cluster.driver, *(cluster.executors or [])] if node is not None}

    def gpus_of(self, node_type_id: str) -> int | None:
        """How many GPUs a node type on offer has."""
        offered = self.w.clusters.list_node_types().node_types or []
        return next((each.num_gpus for each in offered if each.node_type_id == node_type_id), None)

    def check_gpus(self, node_type: str, *, driver: str) -> list[str]:
        """Two workers with one GPU each, on one machine that has two; the driver has none. Each worker's executor has the GPU
        that the engine has given to its node, and no other. Returns the nodes' addresses, the driver's first."""
        made = self.create("gpus", SPARK_4, node_type=node_type, driver_node_type_id=driver, num_workers=2)
        self.wait(made, State.RUNNING, workers=2)
        hosts, nodes = self.hosts(made), self.told_of(made)
        of_driver, of_workers = json.loads(self.run(made, DEVICES))
        assert of_driver == ""
        assert of_workers == sorted([each.uuid, ["0"]] for each in pynvml.ALL)
        until(lambda: self._seen_by_gpus(made) == {each.number / 10 for each in pynvml.ALL}, "each node measures its own GPU")
        self.w.clusters.permanent_delete(made)
        until(lambda: not self.instances() & nodes, "its nodes end")
        return hosts

    def _seen_by_gpus(self, cluster_id: str) -> set[float]:
        """What the workers' samples say of their GPUs' use; the driver's says nothing."""
        found = self.w.api_client.do("GET", "/api/2.0/clusters/metrics-snapshot", query={"cluster_id": cluster_id})
        assert isinstance(found, dict)
        by_role = [(node["role"], node["metrics"].get("gpu_fraction")) for node in found["nodes"]]
        assert all(value is None for role, value in by_role if role == "driver")
        return {round(value, 3) for role, value in by_role if role == "worker" and value is not None}
