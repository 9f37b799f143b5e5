"""`storage_gb`: how much a cluster's workspace directory may take. It grows and never shrinks."""

from __future__ import annotations

from typing import Any

from databricks.sdk import WorkspaceClient

from tests.clusters.v1.conftest import Api
from tests.support.golden import Golden
from tests.support.server import Server

GB = 1 << 30


def grown(to: int) -> dict[str, Any]:
    return {"update_configuration": {"storage_gb": to}}


def test_storage_only_grows_and_the_driver_s_node_is_told(api: Api, server: Server, w: WorkspaceClient, golden: Golden) -> None:
    cluster_id = api.stopped(storage_gb=2)
    assert api.data("GET", f"/{cluster_id}")["configuration"]["storage_gb"] == 2
    code, _, details = api.error("POST", f"/{cluster_id}/start", grown(1))
    (problem,) = details["problems"]
    assert (code, problem["field"], problem["available"]) == (422, "update_configuration.storage_gb", 2)
    golden(problem["reason"])
    started = api.data("POST", f"/{cluster_id}/start", {**grown(3), "wait_for_ready": True})
    assert started["configuration"]["storage_gb"] == 3
    (node,) = server.store.read_sync(lambda tx: tx.instances.of_cluster(cluster_id))
    assert node.assignment is not None and node.assignment.workspace_bytes == 3 * GB
    w.clusters.edit(cluster_id, started["configuration"]["runtime"], node_type_id="i3.xlarge", num_workers=1)
    api.until(cluster_id, "running")
    again = api.data("POST", f"/{cluster_id}/restart", {"wait_for_ready": True})
    assert again["configuration"]["storage_gb"] == 3, "nothing else changes it"
    nodes = server.store.read_sync(lambda tx: tx.instances.of_cluster(cluster_id))
    told = {each.role.value: each.assignment.workspace_bytes for each in nodes if each.assignment is not None and each.live}
    assert told == {"driver": 3 * GB, "worker": 0}, "it counts once"
    api.data("DELETE", f"/{cluster_id}", confirm_deletion="DELETE", force="true")


def test_what_was_made_without_a_size_can_get_one(api: Api, w: WorkspaceClient) -> None:
    cluster_id = api.stopped()
    assert api.data("GET", f"/{cluster_id}")["configuration"]["storage_gb"] is None
    started = api.data("POST", f"/{cluster_id}/start", {**grown(1), "wait_for_ready": True})
    assert started["configuration"]["storage_gb"] == 1
    api.data("DELETE", f"/{cluster_id}", confirm_deletion="DELETE", force="true")
