"""Which Host headers are repeated to callers whom the server does not know, without the setting `host_names`."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from brickyard.api.edge.authentication import PROXIED
from brickyard.api.edge.hosts import Hosts
from brickyard.domain.errors import MalformedRequest
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

OWN = ("https://bricks.example.com:8443", "server.example.org", "http://[::1]:8080", "0.0.0.0")  # noqa: S104 - never bound here
OURS = (
    "bricks.example.com", "BRICKS.example.com:80", "server.example.org.", "localhost:8080", "a.localhost", "127.0.0.1:80",
    "10.1.2.3", "[::1]:8080", "[fd00::5]", "brickyard", "brickyard:8080", "brickyard.default.svc",
    "brickyard.default.svc.cluster.local", "mac.local", "ip-10-0-0-5.ec2.internal", socket.gethostname(),
)  # fmt: skip
THEIRS = (
    "evil.example",
    "bricks.example.com.evil.org",
    "127.0.0.1.nip.io:8080",
    "localhost.evil.example",
    "svc.example",
    "xlocalhost.com",
)


def base_url(host: str, *, names: str = "", vouched: bool = False, proxied: bool = False) -> str:
    scope = {"scheme": "http", "headers": [(b"host", host.encode())], PROXIED: proxied}
    return asyncio.run(Hosts(names, OWN).base_url(scope, vouched=vouched))


@pytest.mark.parametrize("host", OURS)
def test_names_that_no_stranger_can_own_are(host: str) -> None:
    assert base_url(host) == f"http://{host}"


@pytest.mark.parametrize("host", THEIRS)
def test_others_are_only_where_somebody_vouches_for_them(host: str) -> None:
    with pytest.raises(MalformedRequest, match="host_names"):
        base_url(host)
    assert base_url(host, vouched=True) == base_url(host, proxied=True) == f"http://{host}"


@pytest.mark.parametrize("host", ["a b", "x@localhost", "localhost/x", '"', "localhost:1:2"])
def test_what_is_no_name_is_never(host: str) -> None:
    with pytest.raises(MalformedRequest):
        base_url(host, vouched=True, proxied=True)


def test_names_of_the_setting_alone_count_even_where_somebody_vouches() -> None:
    for host in ("bricks.example.com", "brickyard.default.svc", "evil.example"):
        with pytest.raises(MalformedRequest):
            base_url(host, names="n.example", vouched=True, proxied=True)
    for host in ("n.example", "N.example:1", "127.0.0.1", "localhost"):
        assert base_url(host, names="n.example")


def test_a_rebound_page_is_told_nothing_and_clients_notice_nothing(tmp_path: Path) -> None:
    """Clients with a token, browsers at the log-in page, and whoever comes through a trusted proxy."""
    with Server.running(tmp_path, provider="simulated", trusted_proxies="127.0.0.2") as server:

        def ask(path: str, *, peer: str = "127.0.0.1", **headers: str) -> requests.Response:
            session = requests.Session()
            session.get_adapter(server.url).poolmanager.connection_pool_kw["source_address"] = (peer, 0)  # type: ignore[attr-defined]
            return session.get(server.url + path, headers=headers, timeout=PATIENCE_S)

        alias = {"Host": "bricks.example.com"}
        for path in ("/.well-known/databricks-config", "/oidc/.well-known/oauth-authorization-server"):
            refused = ask(path, **alias)
            assert (refused.status_code, refused.json()["error_code"]) == (400, "MALFORMED_REQUEST")
            assert "example.com" not in refused.text.replace("'bricks.example.com'", "")
            assert f"{server.url}/oidc" in ask(path).text
            proxied = ask(path, peer="127.0.0.2", **alias, **{"X-Forwarded-Proto": "https"})
            assert "https://bricks.example.com/oidc" in proxied.text
        assert ask("/login", **alias).status_code == 200
        link = ask("/api/2.1/clusters/list", Authorization=f"Bearer {TOKEN}", **alias)
        assert link.status_code == 200


EXTERNAL = "https://bricks.example.com"


def test_the_name_of_external_url_always_counts() -> None:
    hosts = Hosts("n.example", (), f"{EXTERNAL}:8443")
    for host in ("bricks.example.com", "bricks.example.com:8443"):
        scope = {"scheme": "https", "headers": [(b"host", host.encode())]}
        assert asyncio.run(hosts.base_url(scope, vouched=False)) == f"https://{host}"
    with pytest.raises(MalformedRequest):
        asyncio.run(hosts.base_url({"scheme": "http", "headers": [(b"host", b"evil.example")]}, vouched=True))


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose `external_url` is that of a proxy, which ends TLS and is not in `trusted_proxies`."""
    place = tmp_path_factory.mktemp("outside")
    with Server.running(place, provider="simulated", external_url="https://Bricks.Example.com:443/") as running:
        yield running


@pytest.mark.parametrize("host", ["bricks.example.com", "127.0.0.1", "evil.example"])
def test_every_address_in_an_answer_is_external_url(outside: Server, host: str) -> None:
    """Whichever way the request came: a proxy may send its own idea of Host."""
    me = {"Host": host, "Authorization": f"Bearer {TOKEN}"}

    def answer(method: str, path: str, body: Any = None) -> Any:
        found = requests.request(method, outside.url + path, headers=me, json=body, timeout=PATIENCE_S)
        assert found.status_code == 200, found.text
        return found.json()

    assert answer("GET", "/.well-known/databricks-config")["oidc_endpoint"] == f"{EXTERNAL}/oidc"
    metadata = answer("GET", "/oidc/.well-known/oauth-authorization-server")
    assert metadata["issuer"] == f"{EXTERNAL}/oidc"
    assert {url.startswith(f"{EXTERNAL}/oidc/") for name, url in metadata.items() if name.endswith("_endpoint")} == {True}
    assert answer("POST", "/api/2.1/login-links", {})["url"].startswith(f"{EXTERNAL}/login/")
    assert answer("GET", "/api/2.0/preview/scim/v2/ServiceProviderConfig")["meta"]["location"].startswith(EXTERNAL)
    volume = {"catalog_name": "main", "schema_name": "default", "name": f"v{host[0]}", "volume_type": "MANAGED"}
    answer("POST", "/api/2.1/unity-catalog/volumes", volume)
    soon = datetime.fromtimestamp(time.time() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = f"/Volumes/main/default/v{host[0]}/x"
    requests.put(f"{outside.url}/api/2.0/fs/files{path}", data=b"x", headers=me, timeout=PATIENCE_S).raise_for_status()
    made = answer("POST", f"/api/2.0/fs/create-download-url?path={path}&expire_time={soon}")
    assert made["url"].startswith(f"{EXTERNAL}/")


def test_a_browser_behind_a_proxy_logs_in_and_changes_something(outside: Server) -> None:
    """Its pages have the origin of `external_url`, and its cookie is one of https, although the proxy speaks http to us."""
    behind = {"Host": "bricks.example.com", "Origin": EXTERNAL, "Sec-Fetch-Site": "same-origin"}

    def post(path: str, headers: dict[str, str], **more: Any) -> requests.Response:
        return requests.post(outside.url + path, headers=headers, allow_redirects=False, timeout=PATIENCE_S, **more)

    logged_in = post("/login", behind, data={"token": TOKEN})
    assert logged_in.status_code == 303, logged_in.text
    cookie = logged_in.headers["Set-Cookie"]
    assert cookie.startswith("__Host-") and "; Secure" in cookie
    kept = {**behind, "Cookie": cookie.partition(";")[0]}
    session = requests.get(f"{outside.url}/login/session", headers=kept, timeout=PATIENCE_S).json()
    secret = {"X-CSRF-Token": session["csrf_token"]}
    made = post("/api/2.1/login-links", {**kept, **secret}, json={})
    assert made.status_code == 200, made.text
    for origin in ("http://bricks.example.com", "https://evil.example", "null"):
        assert post("/api/2.1/login-links", {**kept, **secret, "Origin": origin}, json={}).status_code == 403
    assert post("/login", {**behind, "Host": "evil.example"}, data={"token": TOKEN}).status_code == 403
