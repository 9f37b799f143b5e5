"""Headers of answers that keep browsers from showing what somebody else has put there, and the names that answers repeat."""

from __future__ import annotations

import pytest
import requests

from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

DISCOVERY = ("/.well-known/databricks-config", "/oidc/.well-known/oauth-authorization-server")
SERVER = {"host_names": "bricks.example.com, b"}


def ask(server: Server, path: str, *, host: str = "", method: str = "GET", data: bytes | None = None) -> requests.Response:
    headers = {"Authorization": f"Bearer {TOKEN}", **({"Host": host} if host else {})}
    return requests.request(method, server.url + path, headers=headers, data=data, timeout=PATIENCE_S)


def test_no_answer_of_the_api_is_shown_or_run_by_a_browser(server: Server) -> None:
    page = b"<script>alert(1)</script>"
    ask(server, "/api/2.0/workspace-files/import-file/Shared/x.html?overwrite=true", method="POST", data=page)
    volume = {"catalog_name": "main", "schema_name": "default", "name": "v", "volume_type": "MANAGED"}
    made = requests.post(
        f"{server.url}/api/2.1/unity-catalog/volumes",
        json=volume,
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=PATIENCE_S,
    )
    assert made.ok
    assert ask(server, "/api/2.0/fs/files/Volumes/main/default/v/x.html", method="PUT", data=page).ok
    for path, status in (
        ("/api/2.1/clusters/list", 200),
        ("/api/2.1/clusters/get?cluster_id=<b>", 400),
        ("/api/2.1/<script>", 404),
        ("/api/2.0/fs/files/Volumes/main/default/v/x.html", 200),
        ("/api/2.0/workspace-files/Shared/x.html", 200),
        ("/api/2.0/workspace/export?path=/Shared/x.html&direct_download=true", 200),
        ("/api/2.0/audit-logs/export", 200),
        ("/oidc/.well-known/oauth-authorization-server", 200),
    ):
        for method in ("GET", "HEAD"):
            answer = ask(server, path, method=method)
            assert answer.status_code == status, path
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
            assert answer.headers["Content-Disposition"] == "attachment", path
            assert "html" not in answer.headers["Content-Type"], path
    for path in ("/login", "/metrics", "/healthz"):
        answer = ask(server, path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert "Content-Disposition" not in answer.headers or "json" in answer.headers["Content-Type"], path


@pytest.mark.parametrize("path", DISCOVERY)
def test_discovery_repeats_only_names_of_the_server(server: Server, path: str) -> None:
    for host in ("bricks.example.com", "B:8443", "localhost:1", "127.0.0.1:80", "[::1]:80"):
        assert f"http://{host}/oidc" in ask(server, path, host=host).text
    for host in ("evil.example.com", "bricks.example.com.evil.org", "x@bricks.example.com", "bricks.example.com/x", "a b", '"'):
        answer = ask(server, path, host=host)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "MALFORMED_REQUEST"), host
