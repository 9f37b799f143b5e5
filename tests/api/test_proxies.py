"""Whose word on where a request comes from is taken: X-Forwarded-* of the proxies that the settings name."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import requests

from brickyard.api.edge.serving import serving
from brickyard.config.load import load
from brickyard.config.settings import ConfigError
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

FORWARDED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "elsewhere.example.com"}
PEER = ("10.1.2.3", 5000)
PROXIES = ["10.1.2.3", "127.0.0.1, 10.0.0.0/8", "::1,10.1.2.3"]
NO_PROXIES = ["", "127.0.0.1", "10.2.0.0/16", "203.0.113.9", "::1"]


def seen(trusted_proxies: str, forwarded_for: str = "203.0.113.9", *, peer: tuple[str, int] = PEER) -> tuple[str, str]:
    """The client's address and the scheme that the application gets for a request of `peer`."""
    found: dict[str, Any] = {}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.update(scope)

    async def unused(*_: Any) -> Any:
        raise AssertionError("the request has no body, and nothing is answered")

    headers = [(b"host", b"here"), (b"x-forwarded-for", forwarded_for.encode()), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "client": peer, "scheme": "http", "headers": headers}
    config = serving(application, trusted_proxies=trusted_proxies)
    config.load()
    asyncio.run(config.loaded_app(scope, unused, unused))
    return found["client"][0], found["scheme"]


@pytest.mark.parametrize("proxies", NO_PROXIES)
def test_of_others_they_are_ignored(proxies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn's own way to set it
    assert seen(proxies) == (PEER[0], "http")


@pytest.mark.parametrize("proxies", PROXIES)
def test_of_a_configured_proxy_they_count(proxies: str) -> None:
    assert seen(proxies) == ("203.0.113.9", "https")


def test_what_stands_before_a_strangers_address_is_the_strangers_word() -> None:
    assert seen("10.0.0.0/8", "192.0.2.1, 203.0.113.9, 10.5.5.5") == ("203.0.113.9", "https")


@pytest.mark.parametrize("proxies", ["127.0.0.1", "127.0.0.0/8", "::1,127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0/0"])
def test_a_proxy_that_comes_by_ipv4_counts_on_a_socket_of_both_kinds(proxies: str) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening,
        socket.create_connection(("127.0.0.1", listening.getsockname()[1])),
    ):
        taken, (host, port, *_) = listening.accept()
        taken.close()
    assert host == "::ffff:127.0.0.1"
    assert seen(proxies, peer=(host, port)) == ("203.0.113.9", "https")
    assert seen(proxies, "203.0.113.9, ::ffff:127.0.0.1", peer=(host, port))[0] == "203.0.113.9"
    assert seen("192.0.2.1", peer=(host, port)) == (host, "http")


def test_an_address_that_is_written_as_ipv6_has_it_is_the_same_proxy() -> None:
    assert seen("::ffff:10.0.0.0/104") == ("203.0.113.9", "https")
    assert seen("::/0") == (PEER[0], "http"), "every IPv6 address is no IPv4 address"


@pytest.mark.parametrize(("proxies", "scheme"), [("192.0.2.1", "http"), ("127.0.0.1", "https")])
def test_a_server_names_itself_as_its_own_proxy_says(tmp_path: Path, proxies: str, scheme: str) -> None:
    with Server.running(tmp_path, provider="simulated", trusted_proxies=proxies) as server:
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": "bricks.example.com", **FORWARDED}
        made = server.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
        link = requests.get(
            f"{server.url}/api/2.1/clusters/spark-ui-link",
            params={"cluster_id": made.cluster_id}, headers=headers, timeout=PATIENCE_S,
        )  # fmt: skip
        assert link.json()["url"].startswith(f"{scheme}://bricks.example.com/spark-ui/")
        page = {"Host": "bricks.example.com", "Origin": "https://bricks.example.com", **FORWARDED}
        entered = requests.post(
            f"{server.url}/login", data={"token": TOKEN}, headers=page, allow_redirects=False, timeout=PATIENCE_S
        )
        if scheme == "http":
            assert "trusted_proxies" in entered.text
        else:
            assert re.fullmatch(
                r"__Host-brickyard-session=[\w-]+; Path=/; HttpOnly; SameSite=Lax; Secure", entered.headers["Set-Cookie"]
            )


@pytest.mark.parametrize("proxies", ["*", "proxy.example.com", "10.0.0.1/8", "127.0.0.1:80", "10.0.0.0/8;::1", "10.0.0.0/33"])
def test_what_is_no_address_is_refused(proxies: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(environ={"BRICKYARD_TRUSTED_PROXIES": proxies})
    rule = "trusted_proxies must be IP addresses or networks (10.0.0.0/8), comma-separated."
    assert str(raised.value) == f"BRICKYARD_TRUSTED_PROXIES is {proxies!r}; {rule}"


@pytest.mark.parametrize("proxies", [*PROXIES, *NO_PROXIES])
def test_what_is_one_is_taken(proxies: str) -> None:
    assert load(environ={}, options={"trusted_proxies": proxies}).trusted_proxies == proxies
