"""The port for agents on other machines: real sockets on loopback, and everybody who should not get in."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from starlette.responses import PlainTextResponse

from brickyard.agent.link.http import Client, HttpError
from brickyard.config.settings import Settings
from brickyard.machine import tls
from brickyard.nodes.authority import Authority
from brickyard.providers.base import SetupError
from brickyard.server.agentport import MOST_STRANGERS, AgentPort, Listening, trusted, wanted
from brickyard.storage.private import WorkspaceError
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.ports import HAS_IPV6, free_port

EVERYWHERE = ""  # where a server listens that knows no better
STATUS = "/agent/v1/status"


def on_the_servers_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Like the edge: it lets in who has the token."""
    token = dict(scope["headers"]).get(b"authorization", b"")
    if token == b"Bearer right":
        scope["brickyard.uncount"]()
        await PlainTextResponse("in")(scope, receive, send)
    else:
        await PlainTextResponse("out", 401)(scope, receive, send)


@contextlib.asynccontextmanager
async def served(
    tmp_path: Path, host: str = "127.0.0.1", *, address: str = "127.0.0.1"
) -> AsyncIterator[tuple[AgentPort, Authority]]:
    authority = Authority(tmp_path / "agents-ca.pem")
    port = AgentPort(Listening(address, free_port(), host), authority, application)
    port.start()
    try:
        yield port, authority
    finally:
        await port.stop()


async def ask(
    ca: str, port: int, *, path: str = STATUS, bearer: str = "right", host: str = "127.0.0.1", patience_s: float = PATIENCE_S
) -> tuple[int, bytes]:
    client = Client(tls.client_context(ca))
    try:
        url = f"https://{host}:{port}{path}"
        answer = await client.request("GET", url, bearer=bearer, timeout_s=patience_s, may_connect=lambda: True)
        return answer.status, answer.body
    finally:
        client.close()


def test_an_agent_with_the_workspaces_certificate_gets_in(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as (port, authority):
            assert await ask(authority.pem, port.port) == (200, b"in")
            assert await ask(authority.pem, port.port, bearer="wrong") == (401, b"out")
            for path in ("/", "/api/2.0/clusters/list", "/agent/v1", "/agent/v1/../../healthz", "/agent/v1/status/x"):
                assert (await ask(authority.pem, port.port, path=path))[0] == 404

    on_the_servers_loop(run)


def test_every_server_of_the_workspace_has_the_same_authority(tmp_path: Path, golden: Golden) -> None:
    first, second = (Authority(tmp_path / "agents-ca.pem") for _ in range(2))
    assert first.pem == second.pem
    assert (tmp_path / "agents-ca.pem").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in first.pem
    (tmp_path / "agents-ca.pem").write_text(first.pem)
    with golden.refused(WorkspaceError, "agents-ca.pem"):
        Authority(tmp_path / "agents-ca.pem")


def test_agents_trust_neither_another_authority_nor_another_host(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    async def run() -> None:
        other = Authority(tmp_path / "other/agents-ca.pem")
        async with served(tmp_path) as (port, authority):
            for wrong in (other.pem, ""):
                with pytest.raises(HttpError, match="certificate verify failed"):
                    await ask(wrong, port.port)
            with pytest.raises(HttpError, match="certificate verify failed: Hostname mismatch"):
                await ask(authority.pem, port.port, host="localhost")
        async with served(tmp_path, "localhost") as (port, authority):
            assert (await ask(authority.pem, port.port, host="localhost"))[0] == 200

    on_the_servers_loop(run)


@pytest.mark.skipif(not HAS_IPV6, reason="this machine has no ::1")
def test_agents_get_in_by_both_kinds_of_addresses(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, "::1", address="::1") as (port, authority):
            assert await ask(authority.pem, port.port, host="[::1]") == (200, b"in")
        for host, url in (("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")):  # a server that is called by a name
            async with served(tmp_path, host, address=EVERYWHERE) as (port, authority):
                assert await ask(authority.pem, port.port, host=url) == (200, b"in")

    on_the_servers_loop(run)


def test_a_renewed_certificate_is_trusted_and_has_its_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as (port, authority):
            before = await asyncio.to_thread(_certificate, port.port)
            authority.renew(port._context, "127.0.0.1")
            after = await asyncio.to_thread(_certificate, port.port)
            assert before.serial_number != after.serial_number
            left = after.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
            assert left > datetime.timedelta(days=29)
            assert (await ask(authority.pem, port.port))[0] == 200

    on_the_servers_loop(run)


def _certificate(port: int) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode())


def test_plain_http_is_ended_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(b"GET /agent/v1/status HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer right\r\n\r\n")
            async with asyncio.timeout(PATIENCE_S):
                with contextlib.suppress(ConnectionError):
                    assert b"HTTP" not in await reader.read()
            writer.close()

    on_the_servers_loop(run)


def test_silent_strangers_have_little_time_and_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with served(tmp_path) as (port, authority):
            silent = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(MOST_STRANGERS * 2)]
            try:
                assert (await ask(authority.pem, port.port))[0] == 200
                assert len(port._listener.strangers) <= MOST_STRANGERS
                silent[0].settimeout(PATIENCE_S)
                assert await asyncio.to_thread(silent[0].recv, 1) == b"", "the oldest has made room"
                known = Client(tls.client_context(authority.pem))
                url = f"https://127.0.0.1:{port.port}{STATUS}"
                for _ in range(2):  # the second request after enough strangers to replace all
                    await known.request("GET", url, bearer="right", timeout_s=PATIENCE_S, may_connect=lambda: True)
                    silent += [socket.create_connection(("127.0.0.1", port.port)) for _ in range(MOST_STRANGERS + 1)]
                assert len(port._listener.peers) <= MOST_STRANGERS + 1
                known.close()
            finally:
                for each in silent:
                    each.close()

        monkeypatch.setattr(tls, "HANDSHAKE_S", 0.2)
        async with served(tmp_path) as (port, _):
            with socket.create_connection(("127.0.0.1", port.port)) as alone:
                alone.settimeout(PATIENCE_S)
                assert await asyncio.to_thread(alone.recv, 1) == b""

    on_the_servers_loop(run)


def test_a_thousand_agents_at_once_get_in(tmp_path: Path) -> None:
    """As when a server starts again: more than may be unknown at a time, and none is turned away."""

    async def run() -> None:
        async with served(tmp_path) as (port, authority):
            calls = (ask(authority.pem, port.port, patience_s=PATIENCE_S) for _ in range(MOST_STRANGERS * 3))
            answers = await asyncio.gather(*calls)
            assert set(answers) == {(200, b"in")}

    on_the_servers_loop(run)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"public_url": "https://127.0.0.1:8443"}, Listening("127.0.0.1", 8443, "127.0.0.1")),
        ({"public_url": "https://bricks.internal"}, Listening(EVERYWHERE, 443, "bricks.internal")),
        ({"public_url": "https://b.internal:1", "host": "10.0.0.7"}, Listening("10.0.0.7", 1, "b.internal")),
        ({"public_url": "https://192.0.2.1:8443", "agent_port": 9443}, Listening(EVERYWHERE, 9443, "192.0.2.1")),
        ({"public_url": "https://[::1]:8443"}, Listening("::1", 8443, "::1")),
        ({"public_url": "https://[2001:db8::1]:8443"}, Listening(EVERYWHERE, 8443, "2001:db8::1")),
        ({"public_url": "https://b.internal", "host": "::"}, Listening(EVERYWHERE, 443, "b.internal")),
        ({"public_url": "https://b.internal", "agent_port": 0}, None),
        ({"public_url": "https://b.internal", "agent_ca": Path("ca.pem")}, None),
        ({"public_url": "http://b.internal"}, None),
    ],
)
def test_one_setting_is_enough(given: dict[str, Any], found: Listening | None) -> None:
    assert wanted(Settings(**given)) == found


def test_what_agents_trust_behind_a_proxy(tmp_path: Path) -> None:
    pem = Authority(tmp_path / "agents-ca.pem").pem
    (tmp_path / "proxy.pem").write_text(pem)
    assert trusted(Settings(agent_ca=tmp_path / "proxy.pem"), None) == pem
    assert trusted(Settings(), None) == ""
    for text in ("", "nothing"):
        (tmp_path / "proxy.pem").write_text(text)
        with pytest.raises(SetupError, match=r"agent_ca .*proxy\.pem.* PEM"):
            trusted(Settings(agent_ca=tmp_path / "proxy.pem"), None)


def test_a_port_that_is_taken_is_named_with_its_settings(tmp_path: Path, golden: Golden) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = Listening("127.0.0.1", taken.getsockname()[1], "127.0.0.1")
        with golden.refused(SetupError, "agent_port", port=str(where.port)):
            AgentPort(where, Authority(tmp_path / "agents-ca.pem"), application)
