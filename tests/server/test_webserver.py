"""One port for HTTPS and Spark Connect: what each kind of client gets, and who cannot keep others out."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
import uvloop
from databricks.sdk import WorkspaceClient
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.websockets import WebSocket

from brickyard.config.settings import Settings
from brickyard.gateway import passthrough, tls
from brickyard.gateway.connect import ConnectGateway
from brickyard.gateway.entrance import behind, credentials
from brickyard.gateway.passthrough import Passthrough
from brickyard.machine import tls as machine_tls
from brickyard.machine.addresses import own_addresses
from brickyard.server import webserver
from brickyard.server.webserver import WebServer
from brickyard.testing.builders import cluster, up
from tests.gateway.driver import BLOCK, UNLIMITED
from tests.gateway.world import World, as_metadata, method, world
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.server import TOKEN, Server

OTHERS = "127.0.0.9"  # an address of this machine that stands for another machine's


def on_the_servers_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(work(), PATIENCE_S))


async def application(scope: Any, receive: Any, send: Any) -> None:
    """It tells what it is asked and by whom; on /large it sends 8 MiB, and a websocket gets its messages back."""
    if scope["type"] == "websocket":
        session = WebSocket(scope, receive, send)
        await session.accept()
        with contextlib.suppress(Exception):
            while True:
                await session.send_text(await session.receive_text())
    elif scope["path"] == "/large":
        await PlainTextResponse("x" * (8 << 20))(scope, receive, send)
    else:
        found = {"scheme": scope["scheme"], "client": scope["client"][0], "version": scope["http_version"]}
        await JSONResponse(found)(scope, receive, send)


class Door:
    """A port, and what is behind it."""

    def __init__(self, w: World, web: WebServer, ca: Path, port: int, connect: Passthrough | None) -> None:
        self.w, self.web, self.ca, self.port, self.connect = w, web, ca, port, connect

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def strangers(self) -> int:
        assert self.web._port is not None
        return len(self.web._port.strangers)

    @property
    def peers(self) -> int:
        assert self.web._port is not None
        return len(self.web._port.peers)

    def trusting(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if protocols:
            context.set_alpn_protocols(protocols)
        return context

    def channel(self, *, options: list[tuple[str, Any]] | None = None) -> grpc.aio.Channel:
        trusting = grpc.ssl_channel_credentials(self.ca.read_bytes())
        return grpc.aio.secure_channel(f"127.0.0.1:{self.port}", trusting, options=options or UNLIMITED)

    async def ask(self, path: str = "/") -> tuple[int, bytes]:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}{path}", ssl=self.trusting()) as answer:
            return answer.status, await answer.read()


@contextlib.asynccontextmanager
async def door(tmp_path: Path, *, connects: bool = True, host: str = "127.0.0.1", **settings: Any) -> AsyncIterator[Door]:
    async with world(tmp_path) as w:
        chosen = Settings(data_dir=tmp_path, tls=True, **settings)
        certificate = tls.certificate(chosen, tmp_path / "clients-ca.pem")
        assert chosen.ca_file is not None
        gateway = ConnectGateway(
            authenticator=w.authenticator, attach=w.attach, credentials=lambda: credentials(certificate), note=w.gateway._note
        )
        led = await behind(gateway) if connects else None
        listening = socket.create_server((host, 0), backlog=1024)
        web = WebServer(application, listening, chosen, certificate=certificate, connect=led)
        served = asyncio.create_task(web.run())
        try:
            yield Door(w, web, chosen.ca_file, listening.getsockname()[1], led)
        finally:
            await gateway.stop()
            web.stop()
            await served


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1"), ("http/1.1", "h2"), ("something",)])
def test_who_can_speak_http_1_gets_it(tmp_path: Path, protocols: tuple[str, ...]) -> None:
    """Browsers, Go's clients and curl offer HTTP/2, too."""

    async def run() -> None:
        async with door(tmp_path) as d:
            reader, writer = await asyncio.open_connection("127.0.0.1", d.port, ssl=d.trusting(*protocols))
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() in ("http/1.1", None)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            assert b'{"scheme":"https","client":"127.0.0.1","version":"1.1"}' in answer
            writer.close()
            await until(lambda: d.peers == 0)

    on_the_servers_loop(run)


def test_large_answers_and_websockets_pass(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path) as d:
            assert len((await d.ask("/large"))[1]) == 8 << 20
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(f"wss://127.0.0.1:{d.port}/", ssl=d.trusting()) as talk,
            ):
                await talk.send_str("hello")
                assert await talk.receive_str() == "hello"

    on_the_servers_loop(run)


def test_spark_connect_is_on_the_same_port(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path) as d, d.channel() as channel:
            await d.w.set(up(cluster()))
            metadata = as_metadata(await d.w.token("me@example.com"))
            call = method(channel.unary_unary, "Config")
            assert await call(b"hello", metadata=metadata) == b"hello"
            large = b"\xff" * (1 << 20)  # no fields
            assert await call(large, metadata=metadata) == large
            stream = method(channel.unary_stream, "ExecutePlan")(b"64", metadata=metadata)
            assert [message async for message in stream] == [BLOCK] * 64
            assert (await d.ask())[0] == 200, "both at a time"
            assert d.strangers == 0
            assert d.peers == 1

    on_the_servers_loop(run)


def test_the_clients_own_address_is_known(tmp_path: Path) -> None:
    """For the audit log, and for those who try tokens."""
    seen: list[str] = []

    async def run() -> None:
        async with door(tmp_path, host="0.0.0.0") as d, d.channel() as channel:  # noqa: S104 - a test's
            (gateway,) = (each for each in (d.connect,) if each is not None)
            address = gateway.address
            gateway.address = lambda peer: seen.append(address(peer)) or address(peer)  # type: ignore[method-assign,func-returns-value]
            with pytest.raises(grpc.aio.AioRpcError):
                await method(channel.unary_unary, "Config")(b"hello")
            own = own_addresses()
            for host in [each for each in own if ":" not in each][:1]:
                trusting = grpc.ssl_channel_credentials(d.ca.read_bytes())
                named = [*UNLIMITED, ("grpc.ssl_target_name_override", "localhost")]
                async with grpc.aio.secure_channel(f"{host}:{d.port}", trusting, options=named) as other:
                    with pytest.raises(grpc.aio.AioRpcError):
                        await method(other.unary_unary, "Config")(b"hello")
                assert seen == ["127.0.0.1", host]

    on_the_servers_loop(run)


def test_nobody_gets_to_the_gateway_behind_by_himself(tmp_path: Path) -> None:
    """Else programs of this machine would have the address of nobody."""

    async def run() -> None:
        async with door(tmp_path) as d:
            assert d.connect is not None
            trusting = grpc.ssl_channel_credentials(d.ca.read_bytes())
            async with grpc.aio.secure_channel(f"127.0.0.1:{d.connect.port}", trusting, options=UNLIMITED) as channel:
                metadata = as_metadata(await d.w.token("me@example.com"))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await method(channel.unary_unary, "Config")(b"hello", metadata=metadata)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    on_the_servers_loop(run)


async def plain(port: int, source: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + b"x" * 2000)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("proxies", "status"), [("", b"400"), ("127.0.0.8", b"400"), ("127.0.0.9", b"200"), ("10.0.0.0/8,127.0.0.8/30", b"200")]
)
def test_plain_http_is_for_this_machine_and_trusted_proxies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: str, status: bytes
) -> None:
    class Elsewhere(ipaddress.IPv4Address):
        """Loopback, which here is another network."""

        is_loopback = False

    async def run() -> None:
        async with door(tmp_path, trusted_proxies=proxies) as d:
            answer = await plain(d.port)
            assert b'{"scheme":"http","client":"127.0.0.1","version":"1.1"}' in answer
            monkeypatch.setattr(webserver, "_address", Elsewhere)
            answer = await plain(d.port, OTHERS)
            assert answer.split()[1] == status
            assert (b"BAD_REQUEST" in answer) == (status == b"400")
            await until(lambda: d.peers == 0)

    on_the_servers_loop(run)


def test_an_ipv4_client_of_an_ipv6_socket_is_this_machines(tmp_path: Path) -> None:
    assert webserver._address("::ffff:127.0.0.1").is_loopback
    assert webserver._address("fe80::1%eth0") == webserver._address("fe80::1")


def test_without_spark_connect_only_http_is_served(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path, connects=False) as d:
            assert (await d.ask())[0] == 200
            async with d.channel() as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await method(channel.unary_unary, "Config")(b"hello")
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    on_the_servers_loop(run)


def test_a_slow_beginning_has_its_time_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with door(tmp_path) as d:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            with contextlib.suppress(ssl.SSLWantReadError):
                d.trusting("h2").wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
            hello = outgoing.read()
            reader, writer = await asyncio.open_connection("127.0.0.1", d.port)
            for part in (hello[:1], hello[1:4], hello[4:90], hello[90:]):
                writer.write(part)
                await asyncio.sleep(0.05)
            assert (await reader.readexactly(1))[0] == 0x16, "gRPC shakes hands"
            writer.close()
            await until(lambda: d.peers == 0)
            monkeypatch.setattr(webserver, "HANDSHAKE_S", 0.2)
            monkeypatch.setattr(machine_tls, "HANDSHAKE_S", 0.2)
            for said in (b"", hello[:90], b"\x16", b"\x16\x03\x01\x00\x05hello"):
                reader, writer = await asyncio.open_connection("127.0.0.1", d.port)
                writer.write(said)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            for said in (b"", hello[:90]):  # it ends by itself
                reader, writer = await asyncio.open_connection("127.0.0.1", d.port)
                writer.write(said)
                writer.write_eof()
                with contextlib.suppress(ConnectionError):  # what it has sent is unread
                    assert await reader.read() == b""
                writer.close()
            await until(lambda: d.peers == 0)

    on_the_servers_loop(run)


def test_silent_strangers_keep_nobody_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path) as d, d.channel() as channel:
            await d.w.set(up(cluster()))
            metadata = as_metadata(await d.w.token("me@example.com"))
            call = method(channel.unary_unary, "Config")
            assert await call(b"known", metadata=metadata) == b"known"
            silent = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(webserver.MOST_STRANGERS * 2)]
            try:
                assert (await d.ask())[0] == 200
                assert await call(b"still", metadata=metadata) == b"still"
                async with d.channel(options=[*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]) as another:
                    assert await method(another.unary_unary, "Config")(b"new", metadata=metadata) == b"new"
                assert d.strangers <= webserver.MOST_STRANGERS
            finally:
                for each in silent:
                    each.close()

    on_the_servers_loop(run)


def test_one_address_has_so_many_connections_of_spark_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with door(tmp_path) as d:
            await d.w.set(up(cluster()))
            metadata = as_metadata(await d.w.token("me@example.com"))
            monkeypatch.setattr(passthrough, "MOST_OF_ADDRESS", 2)
            own = [("grpc.use_local_subchannel_pool", 1)]
            async with contextlib.AsyncExitStack() as opened:
                for _ in range(2):
                    channel = await opened.enter_async_context(d.channel(options=own))
                    assert await method(channel.unary_unary, "Config")(b"in", metadata=metadata) == b"in"
                third = await opened.enter_async_context(d.channel(options=own))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await method(third.unary_unary, "Config")(b"out", metadata=metadata)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                assert (await d.ask())[0] == 200
            async with d.channel(options=own) as later:
                assert await method(later.unary_unary, "Config")(b"in", metadata=metadata) == b"in"

    on_the_servers_loop(run)


def test_who_takes_nothing_costs_one_window(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path) as d, d.channel() as channel:
            await d.w.set(up(cluster()))
            metadata = as_metadata(await d.w.token("me@example.com"))
            stream = method(channel.unary_stream, "ExecutePlan")(b"2000", metadata=metadata)
            assert await stream.read() == BLOCK
            before = -1
            while d.w.driver.sent != before:  # until it waits for us
                before = d.w.driver.sent
                await asyncio.sleep(0.5)
            assert before < 200
            stream.cancel()
            await asyncio.wait_for(d.w.driver.cancelled.wait(), PATIENCE_S)

    on_the_servers_loop(run)


def test_what_is_carried_ends_with_either_side(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path) as d:
            assert d.connect is not None
            channel = d.channel()
            with pytest.raises(grpc.aio.AioRpcError):
                await method(channel.unary_unary, "Config")(b"hello")
            assert d.peers == 1
            await channel.close()
            await until(lambda: d.peers == 0 and d.connect is not None and not d.connect._clients)
            assert not d.connect._held

    on_the_servers_loop(run)


def test_a_whole_server_has_one_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK by https and, as it is the same machine, by http; and Spark Connect."""
    with Server.running(tmp_path / "w", provider="simulated", tls=True, connect_port=free_port()) as server:
        ca_file = server.data_dir / "tls" / "ca.pem"
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca_file))
        for scheme in ("https://", "http://"):
            client = WorkspaceClient(host=server.url.replace("http://", scheme), token=TOKEN)
            assert client.current_user.me().user_name == "admin@brickyard.local"
        trusting = grpc.ssl_channel_credentials(ca_file.read_bytes())
        with grpc.secure_channel(server.url.removeprefix("http://"), trusting) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                method(channel.unary_unary, "Config")(b"", timeout=PATIENCE_S)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_idle_clients_do_not_hold_up_its_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with door(tmp_path) as d:
            reader, writer = await asyncio.open_connection("127.0.0.1", d.port, ssl=d.trusting())
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"}")
            writer.transport.pause_reading()  # type: ignore[attr-defined] # it does not see our goodbye
            d.web.stop()
            await until(lambda: not d.web._server.server_state.connections)
            writer.close()

    on_the_servers_loop(run)
