"""`/api/items/databricks-cluster` over HTTP: the same clusters as everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from brickyard.providers.simulated import SimulatedProvider
from brickyard.testing.builders import SMALL
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

SPEC = {"cluster_name": "an item", "spark_version": "17.3.x-scala2.13", "node_type_id": SMALL.node_type_id, "num_workers": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    instances = SimulatedProvider(node_types=[SMALL])
    with Server.running(tmp_path_factory.mktemp("items"), provider="simulated", instances=instances) as running:
        yield running


def call(server: Server, method: str, path: str = "", *, status: int = 200, **given: Any) -> dict[str, Any]:
    url = f"{server.url}/api/items/databricks-cluster{path}"
    answer = requests.request(method, url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S, **given)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_cluster_from_its_creation_to_its_end(server: Server) -> None:
    w = server.client()
    cluster_id = call(server, "POST", json=SPEC)["cluster_id"]
    asked = {"clusterId": cluster_id}
    w.clusters.wait_get_cluster_running(cluster_id)
    assert [each["cluster_id"] for each in call(server, "GET")["clusters"]] == [cluster_id]
    assert call(server, "GET", "/my-item", params=asked)["cluster_name"] == "an item"
    call(server, "POST", "/my-item/state", params={**asked, "action": "restart"})
    w.clusters.wait_get_cluster_running(cluster_id)
    call(server, "POST", "/my-item/state", params=asked, json={"action": "stop"})
    until(lambda: call(server, "GET", "/x", params=asked)["state"] == "TERMINATED")
    call(server, "POST", "/state", params={**asked, "action": "start"})
    w.clusters.wait_get_cluster_running(cluster_id)
    call(server, "POST", "/state", params={**asked, "action": "start"})  # idempotent, as the specification wants it
    events = call(server, "GET", "/my-item/events", params={**asked, "limit": 2})
    assert len(events["events"]) == 2
    refused = call(server, "DELETE", "/my-item", params=asked, status=400)
    assert "permanent" in refused["message"]
    call(server, "DELETE", "/my-item", params={**asked, "permanent": "true"})
    assert call(server, "GET").get("clusters", []) == []


def test_what_a_cluster_can_be_made_of(server: Server) -> None:
    w = server.client()
    found = call(server, "GET", "/options")
    assert [each["node_type_id"] for each in found["node_types"]] == [SMALL.node_type_id]
    assert [each["key"] for each in found["versions"]] == [each.key for each in w.clusters.spark_versions().versions or []]


def test_wrong_requests_name_the_field(server: Server) -> None:
    assert "clusterId" in call(server, "GET", "/my-item", status=400)["message"]
    for given in ({"params": {"clusterId": "x", "action": "explode"}}, {"params": {"clusterId": "x"}, "json": {}}):
        assert "action" in call(server, "POST", "/my-item/state", status=400, **given)["message"]
