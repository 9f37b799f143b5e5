"""Reads of one cluster: what they show, that they are kept until something changes, and who may have what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterAccessControlRequest, ClusterPermissionLevel

from brickyard.domain.caller import Caller
from tests.clusters.v1.conftest import Api
from tests.support.patience import until
from tests.support.server import Server

NOTHING: dict[str, Any] = {"include_metrics": "false", "include_cost_breakdown": "false"}


@pytest.fixture(scope="module")
def cluster_id(api: Api) -> str:
    return api.running()


def test_a_get_shows_metrics_health_network_and_cost(api: Api, cluster_id: str) -> None:
    def measured() -> Any:
        found = api.data("GET", f"/{cluster_id}")
        return found if found["metrics"]["nodes"] else None

    shown = until(measured, "the node has sent a sample")
    assert shown["metrics"]["window"] == "1h"
    assert shown["metrics"]["cpu"]["cores"] == shown["configuration"]["cpu_cores"]
    assert 0 <= shown["metrics"]["cpu"]["utilization_percent"]["current"] <= 100
    assert shown["metrics"]["memory"]["used_gb"]["current"] > 0
    assert [(each["name"], each["status"]) for each in shown["health_checks"]][:2] == [
        ("driver", "healthy"),
        ("spark", "healthy"),
    ]
    assert set(shown["network"]) == {"mode", "details", "driver_address"}
    assert shown["cost"]["total"] is not None
    assert shown["logs"] is None
    alone = api.data("GET", f"/{cluster_id}/metrics", metrics_window="7d")
    assert (alone["window"], set(alone)) == ("7d", set(shown["metrics"]))


def test_a_get_shows_what_it_is_asked_for(api: Api, cluster_id: str) -> None:
    shown = api.data("GET", f"/{cluster_id}", **NOTHING)
    assert (shown["metrics"], shown["cost"]["total"]) == (None, None)
    assert api.data("GET", f"/{cluster_id}", metrics_window="6h")["metrics"]["window"] == "6h"
    logs = api.data("GET", f"/{cluster_id}", include_logs="true")["logs"]
    assert all(set(each) == {"file", "size", "text", "running"} for each in logs)
    for query in ({"metrics_window": "2h"}, {"include_metrics": "perhaps"}):
        status, code, details = api.error("GET", f"/{cluster_id}", **query)
        assert (status, code, details["field"]) == (400, "VALIDATION_ERROR", *query)
    assert api.error("GET", "/none/metrics")[:2] == (404, "RESOURCE_NOT_FOUND")
    assert api.error("GET", "/none")[2] == {"resource": "cluster", "id": "none"}
    listed = api.data("GET", "", search=cluster_id)["clusters"][0]
    assert (listed["metrics"], listed["logs"]) == (None, None)


def test_what_is_kept_is_dropped_with_the_next_change(api: Api, w: WorkspaceClient) -> None:
    cluster = api.stopped()

    def name() -> str:
        return str(api.data("GET", f"/{cluster}", **NOTHING)["name"])

    before = name()
    for change in range(3):
        w.clusters.edit(
            cluster_id=cluster,
            cluster_name=f"n{change}-{before}",
            spark_version=w.clusters.select_spark_version(),
            node_type_id="i3.xlarge",
            num_workers=1,
        )
        assert name() == name() == f"n{change}-{before}"
        added = api.data("POST", f"/{cluster}/proxy/ports", {"internal_port": 9000 + change})
        assert added["id"] in {each["id"] for each in api.data("GET", f"/{cluster}", **NOTHING)["port_mappings"]}
    api.data("DELETE", f"/{cluster}", confirm_deletion="DELETE")
    assert api.error("GET", f"/{cluster}", **NOTHING)[0] == 404


def test_who_sees_a_cluster_does_not_read_its_logs(api: Api, server: Server, w: WorkspaceClient, cluster_id: str) -> None:
    user = "reads@example.com"
    w.users.create(user_name=user)
    assert server.application is not None
    made = server.application.parts.services.tokens.create(Caller(user_name=user, user_id="1", is_admin=False, token_id=""))
    reader = Api(server.url, asyncio.run(made)[0])
    api.data("GET", f"/{cluster_id}", **NOTHING)  # so that it is kept
    for path in (f"/{cluster_id}", f"/{cluster_id}/metrics"):
        assert reader.error("GET", path)[:2] == (403, "FORBIDDEN")
    level = ClusterPermissionLevel.CAN_ATTACH_TO
    w.clusters.update_permissions(
        cluster_id, access_control_list=[ClusterAccessControlRequest(user_name=user, permission_level=level)]
    )
    assert reader.data("GET", f"/{cluster_id}", **NOTHING)["id"] == cluster_id
    assert reader.data("GET", f"/{cluster_id}/metrics")["nodes"] <= 1
    status, _, details = reader.error("GET", f"/{cluster_id}", include_logs="true")
    assert (status, details["required_permission"]) == (403, "CAN_MANAGE")
