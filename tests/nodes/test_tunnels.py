"""What passes between a server and an agent on another machine: real TLS on loopback, the real carrier process, and attackers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.link.http import Request, Response, Server, failure
from brickyard.domain.cluster import Instance
from brickyard.domain.endpoints import Endpoint, parse
from brickyard.domain.node import Role
from brickyard.domain.nodeops import PORT_OPEN, STOP, AgentRefused, AgentUnreachable, OpenPortOf, Stop
from brickyard.machine import tls
from brickyard.machine.certificates import agent_pem
from brickyard.machine.frames import Streams
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.client import HttpAgentClient
from brickyard.nodes.tokens import InstanceTokens
from brickyard.nodes.tunnels import Tunnels
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

TOKENS = InstanceTokens(key=b"k" * 32)
PIECE = os.urandom(1 << 20)


class FarAgent:
    """An agent's own server, with a node whose ports are those of this machine's loopback."""

    def __init__(self, instance_id: str = "i-1") -> None:
        self.instance_id = instance_id
        self.handled: list[Request] = []
        self.asked: list[int] = []  # ports for which a tunnel was asked
        self.opened: set[int] = set()  # ports of its node
        self.server = Server(self, host="127.0.0.1", tunnels=True)

    def knows(self, token: str) -> bool:
        return token == TOKENS.server_token(self.instance_id)

    async def handle(self, request: Request) -> Response:
        self.handled.append(request)
        return Response(200, request.body if request.path == "/v1/ports" else b"{}")

    async def tunnel(self, request: Request) -> Streams | Response:
        port = int(request.query["port"])
        self.asked.append(port)
        if port not in self.opened:
            return failure(404, "NOT_FOUND", "nothing listens there")
        return Streams(*await asyncio.open_connection("127.0.0.1", port))

    @property
    def node(self) -> Instance:
        return Instance(
            instance_id=self.instance_id, node_id="n", cluster_id="c", role=Role.DRIVER, generation=1, node_type_id="small",
            endpoint=str(self.server.endpoint),
        )  # fmt: skip


class Near:
    """A server's side."""

    def __init__(self, directory: Path) -> None:
        self.client = HttpAgentClient(pinned=True)
        self.tunnels = Tunnels(directory=directory, tokens=TOKENS)
        self.calls = NodeCalls(client=self.client, tokens=TOKENS, tunnels=self.tunnels)

    async def way(self, node: Instance, port: int) -> str:
        return (await self.calls.ask(node, PORT_OPEN, OpenPortOf(port=port))).way

    async def enter(self, node: Instance, port: int) -> Streams:
        return Streams(*await asyncio.open_unix_connection(await self.way(node, port)))

    async def close(self) -> None:
        await self.tunnels.close()
        await self.client.close()


@contextlib.asynccontextmanager
async def worlds(tmp_path: Path) -> AsyncIterator[tuple[FarAgent, Near]]:
    agent, near = FarAgent(), Near(tmp_path / "tunnels")
    agent.server.start_tls(agent_pem())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield agent, near
    finally:
        await near.close()
        await agent.server.stop()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def program(agent: FarAgent, serve: Serve) -> AsyncIterator[int]:
    """A program of the agent's node; gives its port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    agent.opened.add(port)
    try:
        yield port
    finally:
        server.close()


async def digest_then_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads to the end, and only then answers: with the digest, and as much as it has read."""
    found, count = hashlib.sha256(), 0
    while data := await reader.read(1 << 20):
        found.update(data)
        count += len(data)
    writer.write(found.digest())
    while count > 0:
        writer.write(PIECE[:count])
        await writer.drain()
        count -= len(PIECE)
    writer.close()


def test_an_endpoint_is_plain_or_has_its_certificate(golden: Golden) -> None:
    pin = "ab" * 32
    assert parse(f"https://10.0.0.7:1#{pin}") == Endpoint("https://10.0.0.7:1", pin)
    assert str(parse(f"https://[::1]:1#{pin}")) == f"https://[::1]:1#{pin}"
    assert parse("http://10.0.0.7:1") == Endpoint("http://10.0.0.7:1")
    for wrong in ("", "https://10.0.0.7:1", f"http://10.0.0.7:1#{pin}", "https://10.0.0.7:1#ab", f"https://a/b#{pin}", "ftp://a"):
        with golden.refused(ValueError, wrong):
            parse(wrong)


async def test_calls_reach_the_agent_and_nobody_else(tmp_path: Path, golden: Golden) -> None:
    async with worlds(tmp_path) as (agent, near):
        node = agent.node
        for _ in range(2):
            await near.calls.ask(node, STOP, Stop())
        assert len(agent.handled) == 2
        man_in_the_middle = FarAgent()
        man_in_the_middle.server.start_tls(agent_pem())
        try:
            theirs = man_in_the_middle.server.endpoint
            elsewhere = msgspec.structs.replace(node, endpoint=str(Endpoint(theirs.url, agent.server.endpoint.fingerprint)))
            with golden.refused(AgentUnreachable) as caught:
                await near.calls.ask(elsewhere, STOP, Stop())
            assert not caught.value.sent
            assert man_in_the_middle.handled == []
            man_in_the_middle.opened = agent.opened = {9}
            streams = Streams(*await asyncio.open_unix_connection(await near.tunnels.open(elsewhere, 9)))
            with pytest.raises((EOFError, OSError)):
                await streams.reader.readexactly(1)
            assert man_in_the_middle.asked == []
        finally:
            await man_in_the_middle.server.stop()


async def test_an_agent_without_tls_is_not_called(tmp_path: Path) -> None:
    async with worlds(tmp_path) as (agent, near):
        plain = FarAgent()
        await plain.server.start()
        try:
            for endpoint in (plain.server.url, agent.server.url, ""):
                with pytest.raises(AgentUnreachable) as caught:
                    await near.calls.ask(msgspec.structs.replace(agent.node, endpoint=endpoint), STOP, Stop())
                assert not caught.value.sent
            assert plain.handled == agent.handled == []
        finally:
            await plain.server.stop()


async def test_another_instances_token_opens_nothing(tmp_path: Path, golden: Golden) -> None:
    async with worlds(tmp_path) as (agent, near), program(agent, digest_then_end) as port:
        other = msgspec.structs.replace(agent.node, instance_id="i-2")
        with golden.refused(AgentRefused):
            await near.calls.ask(other, STOP, Stop())
        way = await near.tunnels.open(other, port)
        streams = Streams(*await asyncio.open_unix_connection(way))
        with pytest.raises((EOFError, OSError)):
            await streams.reader.readexactly(1)
        assert agent.handled == []


@pytest.mark.parametrize("size", [0, 1, 70_000, 48 << 20])
async def test_everything_arrives_in_both_directions_with_a_half_close(tmp_path: Path, size: int) -> None:
    async with worlds(tmp_path) as (agent, near), program(agent, digest_then_end) as port:
        streams = await near.enter(agent.node, port)
        found, left = hashlib.sha256(), size
        while left > 0:
            streams.writer.write(PIECE[:left])
            found.update(PIECE[:left])
            await streams.writer.drain()
            left -= len(PIECE)
        streams.writer.write_eof()
        assert await streams.reader.readexactly(32) == found.digest()
        count = 0
        while data := await streams.reader.read(1 << 20):
            count += len(data)
        assert count == size
        streams.writer.close()


async def test_many_connections_at_once_keep_their_bytes_apart(tmp_path: Path) -> None:
    async with worlds(tmp_path) as (agent, near), program(agent, digest_then_end) as port:

        async def one(number: int) -> None:
            streams, sent = await near.enter(agent.node, port), bytes([number]) * 100_000
            streams.writer.write(sent)
            streams.writer.write_eof()
            assert await streams.reader.readexactly(32) == hashlib.sha256(sent).digest()
            assert len(await streams.reader.read()) == len(sent)
            streams.writer.close()

        await asyncio.gather(*(one(number) for number in range(40)))


async def test_a_slow_reader_makes_the_node_wait(tmp_path: Path) -> None:
    sent = 0
    stuck = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            while True:
                writer.write(PIECE)
                try:
                    async with asyncio.timeout(1.0):
                        await writer.drain()
                except TimeoutError:
                    stuck.set()
                    await writer.drain()
                sent += len(PIECE)

    async with worlds(tmp_path) as (agent, near), program(agent, flood) as port:
        streams = await near.enter(agent.node, port)
        await stuck.wait()
        assert sent < 64 << 20, "what is under way is bounded"
        got, more = 0, sent + (8 << 20)
        while got < more:
            got += len(await streams.reader.read(1 << 20))
        streams.writer.close()


async def test_a_client_that_has_gone_is_gone_for_the_node(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """It does not react to the end of what the client says."""
        writer.write(b"x")
        with contextlib.suppress(OSError):
            await reader.read()
        while not _is_over(writer):
            await asyncio.sleep(0.05)
        gone.set()

    async with worlds(tmp_path) as (agent, near), program(agent, listen) as port:
        streams = await near.enter(agent.node, port)
        await streams.reader.readexactly(1)
        streams.writer.close()
        await gone.wait()


def _is_over(writer: asyncio.StreamWriter) -> bool:
    """Whether the kernel has the connection in no state but closed."""
    info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return bool(info[0] == 7)  # TCP_CLOSE


async def test_a_break_ends_the_other_side_too(tmp_path: Path) -> None:
    """The program resets its connection, the agent vanishes, or the server's side does."""

    ends: asyncio.Queue[str] = asyncio.Queue()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half of it")
        await writer.drain()
        try:
            if await reader.read(1) == b"x":
                tls_reset(writer)
            ends.put_nowait("ended")
        except ConnectionResetError:
            ends.put_nowait("reset")

    async with worlds(tmp_path) as (agent, near), program(agent, talk) as port:

        async def begin() -> Streams:
            streams = await near.enter(agent.node, port)
            assert await streams.reader.readexactly(10) == b"half of it"
            return streams

        streams = await begin()
        streams.writer.write(b"x")
        assert await streams.reader.read() == b""
        assert await ends.get() == "ended"
        streams = await begin()
        near.tunnels.forget(agent.instance_id)
        assert await streams.reader.read() == b""
        assert await ends.get() == "reset"
        streams = await begin()
        await agent.server.stop()
        assert await streams.reader.read() == b""
        with pytest.raises(AgentUnreachable):
            await near.way(agent.node, port)


def tls_reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def test_a_port_that_the_agent_does_not_open_breaks(tmp_path: Path) -> None:
    async with worlds(tmp_path) as (agent, near):
        with socket.create_server(("127.0.0.1", 0)) as others:
            streams = await near.enter(agent.node, others.getsockname()[1])
            with pytest.raises((EOFError, OSError)):
                await streams.reader.readexactly(1)


async def test_ways_survive_the_process_and_end_with_the_instance(tmp_path: Path) -> None:
    async with worlds(tmp_path) as (agent, near), program(agent, digest_then_end) as port:
        way = Path(await near.way(agent.node, port))
        assert way.stat().st_mode & 0o077 == 0
        assert way.parent.parent.stat().st_mode & 0o077 == 0
        child = near.tunnels._carrier.child
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        await child.ended()
        while True:  # the same way leads there again, without anybody asking
            with contextlib.suppress(OSError, EOFError):
                streams = Streams(*await asyncio.open_unix_connection(way))
                streams.writer.write_eof()
                assert await streams.reader.readexactly(32) == hashlib.sha256().digest()
                break
            await asyncio.sleep(0.05)
        near.tunnels.forget(agent.instance_id)
        while way.exists():
            await asyncio.sleep(0.02)


async def test_the_agent_that_comes_back_has_another_certificate_at_the_same_way(tmp_path: Path) -> None:
    async with worlds(tmp_path) as (agent, near), program(agent, digest_then_end) as port:
        way = await near.way(agent.node, port)
        before = agent.server.endpoint
        again = FarAgent()
        again.opened = agent.opened
        again.server.start_tls(agent_pem())
        try:
            assert again.server.endpoint.fingerprint != before.fingerprint
            assert await near.way(again.node, port) == way
            await agent.server.stop()
            streams = Streams(*await asyncio.open_unix_connection(way))
            streams.writer.write_eof()
            assert await streams.reader.readexactly(32) == hashlib.sha256().digest()
        finally:
            await again.server.stop()


async def test_every_server_of_the_workspace_reaches_the_agent(tmp_path: Path) -> None:
    async with worlds(tmp_path) as (agent, near), program(agent, digest_then_end) as port:
        other = Near(tmp_path / "other")
        try:
            for each in (near, other):
                await each.calls.ask(agent.node, STOP, Stop())
                streams = await each.enter(agent.node, port)
                streams.writer.write_eof()
                assert await streams.reader.readexactly(32) == hashlib.sha256().digest()
            await near.close()  # a server that stops ends its own ways alone
            await other.enter(agent.node, port)
        finally:
            await other.close()


async def test_strangers_at_the_agents_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with worlds(tmp_path) as (agent, near):
        host, port = agent.server.url.removeprefix("https://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))  # plain HTTP
        writer.write(b"GET /v1/status HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in await reader.read()
        for bearer in ("", "Authorization: Bearer wrong\r\n"):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=tls.pinning_context())
            writer.write(f"POST /v1/tunnel?port=1 HTTP/1.1\r\n{bearer}Content-Length: 0\r\n\r\n".encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(tls.MOST_STRANGERS + 10)]
        await near.calls.ask(agent.node, STOP, Stop())
        assert await silent[0][0].read() == b"", "the oldest has made room"
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(host, int(port), ssl=old)

    monkeypatch.setattr(tls, "HANDSHAKE_S", 0.2)
    async with worlds(tmp_path) as (agent, _):
        host, port = agent.server.url.removeprefix("https://").split(":")
        reader, _writer = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
