"""IP access lists at the doors of a server: clients of other addresses come through a proxy that it trusts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.settings import ListType

from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.server import TOKEN, Server

SERVER = {"trusted_proxies": "127.0.0.1"}
OFFICE, ELSEWHERE = "203.0.113.9", "198.51.100.7"
SETTING = "enableIpAccessLists"


def ask(
    server: Server, address: str, path: str = "/api/2.0/clusters/list", method: str = "GET", **options: object
) -> requests.Response:
    """What a client of that address is answered."""
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": address, **dict(options.pop("headers", {}))}  # type: ignore[call-overload] # of each call
    return requests.request(method, f"{server.url}{path}", headers=headers, timeout=PATIENCE_S, **options)  # type: ignore[arg-type] # as above


@contextlib.contextmanager
def allowing(w: WorkspaceClient, *addresses: str) -> Iterator[str]:
    """Only these addresses are let in."""
    made = w.ip_access_lists.create("office", ListType.ALLOW, ip_addresses=list(addresses)).ip_access_list
    assert made is not None
    w.workspace_conf.set_status({SETTING: "true"})
    try:
        yield str(made.list_id)
    finally:
        w.workspace_conf.set_status({SETTING: "false"})
        for each in w.ip_access_lists.list():
            w.ip_access_lists.delete(str(each.list_id))


@pytest.fixture
def w(server: Server) -> WorkspaceClient:
    return server.client()  # from this machine, which is never kept out


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/api/2.0/clusters/list", "GET"),
        ("/api/2.0/clusters/create", "POST"),
        ("/", "GET"),
        ("/login", "GET"),
        ("/login", "POST"),
        ("/oidc/v1/token", "POST"),
        ("/metrics", "GET"),
        ("/.well-known/databricks-config", "GET"),
        ("/spark-ui/0101-000000-aaaaaaaa/", "GET"),
        ("/ports/0101-000000-aaaaaaaa/8080/", "GET"),
    ],
)
def test_every_door_is_closed_to_other_addresses(server: Server, w: WorkspaceClient, path: str, method: str) -> None:
    before = ask(server, ELSEWHERE, path, method).status_code
    with allowing(w, OFFICE):
        refused = ask(server, ELSEWHERE, path, method)
        assert refused.status_code == 403
        assert ask(server, OFFICE, path, method).status_code == before
    assert ask(server, ELSEWHERE, path, method).status_code == before


def test_the_refusal_is_one_that_clients_know(server: Server, w: WorkspaceClient) -> None:
    with allowing(w, OFFICE):
        refused = ask(server, ELSEWHERE)
    assert refused.json()["error_code"] == "PERMISSION_DENIED"
    assert f"Source IP address: {ELSEWHERE} is blocked by Databricks IP ACL" in refused.json()["message"]
    assert str(w.get_workspace_id()) in refused.json()["message"]


def test_a_wrong_token_learns_nothing_more(server: Server, w: WorkspaceClient) -> None:
    with allowing(w, OFFICE):
        assert ask(server, ELSEWHERE, headers={"Authorization": "Bearer wrong"}).status_code == 403


def test_health_and_agents_are_answered_everywhere(server: Server, w: WorkspaceClient) -> None:
    with allowing(w, OFFICE):
        assert ask(server, ELSEWHERE, "/healthz").status_code == 200
        assert ask(server, ELSEWHERE, "/readyz").status_code == 200
        assert ask(server, ELSEWHERE, "/agent/v1/assignment?instance_id=i-1").status_code == 401


@pytest.mark.parametrize("forwarded", ["unknown", "here", "127.0.0.1", f"127.0.0.1, {ELSEWHERE}"])
def test_what_a_client_calls_itself_is_no_way_in(server: Server, w: WorkspaceClient, forwarded: str) -> None:
    with allowing(w, OFFICE):
        assert ask(server, forwarded).status_code == 403


def test_a_proxy_on_this_machine_that_no_setting_names_lets_nobody_in(tmp_path: Path, golden: Golden) -> None:
    with Server.running(tmp_path, provider="simulated") as server:
        w = server.client()
        refused = ask(server, OFFICE, "/api/2.0/ip-access-lists", "POST", json={"label": "x", "list_type": "ALLOW"})
        assert refused.status_code == 200, "the lists are off"
        refused = ask(server, OFFICE, "/api/2.0/workspace-conf", "PATCH", json={SETTING: "true"})
        assert refused.json()["error_code"] == "INVALID_STATE"
        golden(refused.json()["message"])
        with allowing(w, OFFICE):
            golden(ask(server, OFFICE).json()["message"])
            assert ask(server, OFFICE).status_code == 403
            assert list(w.clusters.list()) == []


def test_a_caller_is_not_locked_out_by_its_own_call(server: Server, w: WorkspaceClient) -> None:
    def change(method: str, path: str, body: dict[str, object]) -> requests.Response:
        return ask(server, OFFICE, path, method, json=body)

    with allowing(w, OFFICE, "10.0.0.0/8") as list_id:
        one = f"/api/2.0/ip-access-lists/{list_id}"
        for answer in (
            change("PATCH", one, {"ip_addresses": ["10.0.0.0/8"], "source": "here"}),
            change("PUT", one, {"label": "x", "list_type": "BLOCK", "enabled": True, "ip_addresses": [OFFICE]}),
            change("POST", "/api/2.0/ip-access-lists", {"label": "x", "list_type": "BLOCK", "ip_addresses": [OFFICE]}),
        ):
            assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_STATE")
        w.ip_access_lists.create("also", ListType.ALLOW, ip_addresses=["10.0.0.0/8"])
        assert ask(server, OFFICE, one, "DELETE").json()["error_code"] == "INVALID_STATE"
        assert ask(server, OFFICE).status_code == 200
        w.ip_access_lists.update(list_id, enabled=False)  # from the machine itself everything may be done
        assert ask(server, OFFICE).status_code == 403


def test_events_end_for_an_address_that_is_blocked(server: Server, w: WorkspaceClient) -> None:
    with contextlib.closing(ask(server, ELSEWHERE, "/api/2.1/changes", stream=True)) as stream:
        lines = stream.iter_lines()
        assert b"retry" in next(lines)
        with allowing(w, OFFICE):
            w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
            rest = [line for line in lines if line.startswith(b"data: ")]
            assert len(rest) <= 1, "what was on its way"


def test_refused_addresses_are_in_the_audit_log_once_a_minute(server: Server, w: WorkspaceClient) -> None:
    with allowing(w, OFFICE):
        for _ in range(5):
            ask(server, "198.51.100.77")

    def entries() -> list[dict[str, object]]:
        found = w.api_client.do("GET", "/api/2.0/audit-logs", query={"operation": "ip_access_lists.blocked"})
        assert isinstance(found, dict)
        return [each for each in found.get("entries", []) if each.get("address") == "198.51.100.77"]

    assert len(until(entries)) == 1


def test_spark_connect_is_a_door_too(tmp_path: Path) -> None:
    """Its client is on this machine, and passed on by a proxy that no setting names."""

    def refusal(port: int) -> grpc.StatusCode:
        metadata = (("authorization", f"Bearer {TOKEN}"), ("x-forwarded-for", OFFICE), ("x-databricks-cluster-id", "0101-1-a"))
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_unary("/spark.connect.SparkConnectService/Config")
            with pytest.raises(grpc.RpcError) as raised:
                call(b"", metadata=metadata, timeout=PATIENCE_S)
            return cast("grpc.Call", raised.value).code()

    port = free_port()
    with Server.running(tmp_path, provider="simulated", connect_port=port) as server:
        before = refusal(port)
        assert before is not grpc.StatusCode.PERMISSION_DENIED
        with allowing(server.client(), OFFICE):
            assert refusal(port) is grpc.StatusCode.PERMISSION_DENIED
        assert refusal(port) is before
