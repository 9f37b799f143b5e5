"""A GET whose arguments are in a JSON body: the first example of Databricks' reference, Airflow's trigger, fsspec's and pandas'
`dbfs://`. A DELETE whose arguments are there: the older CLI's client."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.catalog import VolumeType

from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server


@pytest.fixture
def get(server: Server) -> Any:
    def call(path: str, **options: Any) -> requests.Response:
        head = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        return requests.get(f"{server.url}/api/{path}", headers=head, timeout=PATIENCE_S, **options)

    return call


@pytest.fixture(scope="module")
def cluster_id(w: WorkspaceClient) -> str:
    made = w.clusters.create(
        cluster_name="asked by a body", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1
    )
    return str(made.cluster_id)


def test_an_argument_in_the_body_counts(get: Any, cluster_id: str, golden: Golden) -> None:
    found = get("2.1/clusters/get", json={"cluster_id": cluster_id})
    assert (found.status_code, found.json()["cluster_id"]) == (200, cluster_id)
    # The query counts before the body.
    found = get("2.0/clusters/get", params={"cluster_id": cluster_id}, json={"cluster_id": "0101-000000-other"})
    assert found.json()["cluster_id"] == cluster_id
    assert get("2.0/dbfs/list", json={"path": "/"}).json() == {"files": []}
    golden(get("2.0/secrets/acls/get", json={"scope": "s"}).json()["message"], "principal")


def test_nested_arguments_and_lists(get: Any, cluster_id: str, w: WorkspaceClient) -> None:
    w.clusters.pin(cluster_id)

    def names(**options: Any) -> list[str]:
        return [each["cluster_id"] for each in get("2.1/clusters/list", **options).json().get("clusters", [])]

    assert names(json={"filter_by": {"is_pinned": True, "cluster_sources": ["API", "UI"]}}) == [cluster_id]
    assert names(json={"filter_by": {"is_pinned": "False"}}) == []
    assert names(json={"page_size": 1}, params={"filter_by.cluster_sources": ["JOB", "UI"]}) == []


def test_a_limit_in_the_body_counts(get: Any) -> None:
    runs = get("2.0/jobs/runs/list", json={"limit": 100_000})
    assert runs.status_code == 400 and "limit" in runs.json()["message"]
    assert len(get("2.0/preview/scim/v2/Groups", json={"count": 1}).json()["Resources"]) == 1


def test_a_body_that_cannot_be_read_is_refused(get: Any) -> None:
    for body, word in ((b"{", "not valid JSON"), (b"[]", "must be a JSON object"), (b'{"page_size": "many"}', "page_size")):
        answer = get("2.1/clusters/list", data=body)
        assert answer.status_code == 400 and word in answer.json()["message"], answer.text
    assert get("2.1/clusters/list", data=b"").status_code == 200
    assert get("2.1/clusters/list", data=iter([b'{"page_size"', b": 2}"])).status_code == 200  # chunked


def test_a_path_and_the_servers_own_fields_are_not_the_bodys(get: Any, w: WorkspaceClient) -> None:
    me = w.current_user.me().id
    found = get(f"2.0/preview/scim/v2/Users/{me}", json={"id": "17", "base_url": "http://evil.example"})
    assert found.json()["id"] == me


def test_an_argument_in_the_body_of_a_delete_counts(server: Server, w: WorkspaceClient) -> None:
    def delete(path: str, **options: Any) -> requests.Response:
        head = {"Authorization": f"Bearer {TOKEN}"}
        return requests.delete(f"{server.url}/api/2.1/unity-catalog/{path}", headers=head, timeout=PATIENCE_S, **options)

    w.schemas.create("full", "main")
    w.volumes.create("main", "full", "v", VolumeType.MANAGED)
    assert delete("schemas/main.full").status_code == 400
    assert delete("schemas/main.full", params={"force": "false"}, json={"force": True}).status_code == 400, "the query counts"
    assert delete("schemas/main.full", data=b"{").json()["error_code"] == "MALFORMED_REQUEST"
    assert delete("schemas/main.full", json={"force": True, "full_name": "main.other"}).status_code == 200
    assert "full" not in {each.name for each in w.schemas.list("main")}
