"""Which Host headers are repeated to callers whom the server does not know, without the setting `host_names`."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

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
