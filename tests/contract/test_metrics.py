"""Metrics of clusters through HTTP, on the simulated provider, which marks what it makes up."""

from __future__ import annotations

import time
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue

from brickyard.domain.samples import METRICS
from brickyard.providers.simulated import SimulatedProvider
from tests.support.golden import Golden
from tests.support.patience import until

RUNTIME, TYPE = "17.3.x-scala2.13", "i3.xlarge"


def ask(w: WorkspaceClient, path: str, **query: Any) -> Any:
    return w.api_client.do("GET", f"/api/2.1/clusters/{path}", query=query)


def test_now_and_over_time_and_after_the_end(w: WorkspaceClient, machines: SimulatedProvider, golden: Golden) -> None:
    machines.knobs.sample_s = 0.2
    cluster_id = str(w.clusters.create(spark_version=RUNTIME, node_type_id=TYPE, num_workers=2).result().cluster_id)

    def nodes() -> list[dict[str, Any]]:
        return list(ask(w, "metrics-snapshot", cluster_id=cluster_id)["nodes"])

    until(lambda: len(nodes()) == 3, "samples of three nodes")
    driver, *workers = nodes()
    assert driver["role"] == "driver"
    assert {node["role"] for node in workers} == {"worker"}
    for node in (driver, *workers):
        assert node["simulated"] is True
        assert (node["node_type_id"], node["cores"]) == (TYPE, 4)
        assert node["metrics"].keys() <= METRICS.keys()
        assert 0 < node["metrics"]["cpu_cores"] <= 4
        assert abs(time.time() * 1000 - node["timestamp"]) < 10_000
        assert "gpu_fraction" not in node["metrics"]
    assert "executors" in driver["metrics"]
    w.clusters.delete(cluster_id).result()
    until(lambda: not nodes(), "no node to be left")

    def past() -> dict[str, Any]:
        return dict(ask(w, "metrics", cluster_id=cluster_id, metrics="cpu_cores,executors", step_ms=5000))

    until(lambda: len(past()["nodes"]) == 3, "everything to be written")
    found = past()
    assert found["step_ms"] == 5000
    assert found["end_time"] - found["start_time"] == 3_600_000
    assert found["nodes"][0]["role"] == "driver"
    assert set(found["nodes"][0]["metrics"]) == {"cpu_cores", "executors"}
    assert set(found["nodes"][1]["metrics"]) == {"cpu_cores"}
    one = found["nodes"][1]["instance_id"]
    only = ask(w, "metrics", cluster_id=cluster_id, instance_id=one)["nodes"]
    assert [node["instance_id"] for node in only] == [one]
    for wrong in (
        {"metrics": "cpu"},
        {"step_ms": 1},
        {"start_time": 2, "end_time": 1},
        {"start_time": 1, "end_time": int(time.time() * 1000)},
        {"start_time": int(time.time() * 1000) - 30 * 86_400_000, "step_ms": 5000},
    ):
        with pytest.raises(InvalidParameterValue):
            ask(w, "metrics", cluster_id=cluster_id, **wrong)
    w.clusters.permanent_delete(cluster_id)
    for path in ("metrics", "metrics-snapshot"):
        with golden.refused(InvalidParameterValue):
            ask(w, path, cluster_id=cluster_id)
